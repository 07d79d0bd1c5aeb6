#include "common/weights/gguf_writer.h"

#include "common/base/status.h"
#include "common/weights/output_file.h"

namespace baton::weights {
namespace {

enum GgufType : uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };

uint32_t TensorType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ8_0:
      return 8;
    case DType::kQ4_K:
      return 12;
    case DType::kQ5_K:
      return 13;
    case DType::kQ6_K:
      return 14;
    case DType::kBF16:
      return 30;
    case DType::kI8:
    case DType::kF8:
      break;
  }
  return 0;
}

template <typename T>
void Append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendString(std::string* out, std::string_view text) {
  Append<uint64_t>(out, text.size());
  out->append(text);
}

uint64_t AlignUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace

void GgufWriter::Key(std::string_view key, uint32_t type) {
  AppendString(&metadata_, key);
  Append(&metadata_, type);
  ++keys_;
}

void GgufWriter::ArrayKey(std::string_view key, uint32_t element_type, uint64_t count) {
  Key(key, kArray);
  Append(&metadata_, element_type);
  Append(&metadata_, count);
}

GgufWriter& GgufWriter::U32(std::string_view key, uint32_t value) {
  Key(key, kU32);
  Append(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::F32(std::string_view key, float value) {
  Key(key, kF32);
  Append(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::Bool(std::string_view key, bool value) {
  Key(key, kBool);
  Append<uint8_t>(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::String(std::string_view key, std::string_view value) {
  Key(key, kString);
  AppendString(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::Strings(std::string_view key, const std::vector<std::string>& values) {
  ArrayKey(key, kString, values.size());
  for (const std::string& value : values) AppendString(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::I32s(std::string_view key, const std::vector<int32_t>& values) {
  ArrayKey(key, kI32, values.size());
  for (const int32_t value : values) Append(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::F32s(std::string_view key, const std::vector<float>& values) {
  ArrayKey(key, kF32, values.size());
  for (const float value : values) Append(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::Tensor(TensorSource tensor) {
  tensors_.push_back(std::move(tensor));
  return *this;
}

absl::Status GgufWriter::Write(const std::string& path, const WriteProgress& progress) const {
  std::string header = "GGUF";
  Append(&header, version_);
  Append<uint64_t>(&header, tensors_.size());
  Append(&header, keys_);
  header += metadata_;
  uint64_t position = 0;
  for (const TensorSource& tensor : tensors_) {
    AppendString(&header, tensor.name);
    Append<uint32_t>(&header, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) Append<uint64_t>(&header, *size);
    Append(&header, TensorType(tensor.dtype));
    Append(&header, position);
    position = AlignUp(position + tensor.bytes(), alignment_);
  }
  header.resize(AlignUp(header.size(), alignment_));

  BATON_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(path));
  BATON_RETURN_IF_ERROR(file->Write(header));
  const uint64_t start = file->size();
  for (const TensorSource& tensor : tensors_) {
    BATON_RETURN_IF_ERROR(ForEachPiece(tensor, [&](std::span<const std::byte> piece) -> absl::Status {
      BATON_RETURN_IF_ERROR(file->Write(piece));
      if (progress) progress(file->size() - start, position);
      return absl::OkStatus();
    }));
    BATON_RETURN_IF_ERROR(file->Write(std::string(AlignUp(file->size(), alignment_) - file->size(), '\0')));
  }
  return file->Close();
}

}  // namespace baton::weights
