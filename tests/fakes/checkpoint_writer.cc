#include "tests/fakes/checkpoint_writer.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton::fakes {
namespace {

enum GgufType : uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };

uint32_t GgufTensorType(DType dtype) {
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

void WriteBytes(std::ofstream& out, const std::vector<std::byte>& bytes) {
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  BATON_CHECK(out.good());
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  BATON_CHECK(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

TemporaryDirectory::TemporaryDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "baton_test_XXXXXX").string();
  BATON_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string SafetensorsDType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    default:
      BATON_CHECK(false);
  }
}

std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string out;
  AppendString(&out, header);
  return out.append(data);
}

void WriteSafetensors(const std::string& path, const std::vector<TensorSource>& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t position = 0;
  for (const TensorSource& tensor : tensors) {
    header[tensor.name] = {{"dtype", SafetensorsDType(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {position, position + tensor.bytes()}}};
    position += tensor.bytes();
  }
  std::string text = header.dump();
  text.append(AlignUp(text.size(), 8) - text.size(), ' ');
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << SafetensorsBytes(text, "");
  for (const TensorSource& tensor : tensors) WriteBytes(out, tensor.make());
  out.close();
  BATON_CHECK(out.good());
}

void WriteShardedSafetensors(const std::string& directory, const std::vector<TensorSource>& tensors, int shards) {
  nlohmann::json weight_map = nlohmann::json::object();
  for (int shard = 0; shard < shards; ++shard) {
    const std::string file = absl::StrFormat("model-%05d-of-%05d.safetensors", shard + 1, shards);
    const size_t begin = tensors.size() * shard / shards, end = tensors.size() * (shard + 1) / shards;
    WriteSafetensors(directory + "/" + file, {tensors.begin() + begin, tensors.begin() + end});
    for (size_t i = begin; i < end; ++i) weight_map[tensors[i].name] = file;
  }
  const nlohmann::json index = {{"metadata", nlohmann::json::object()}, {"weight_map", weight_map}};
  WriteFile(directory + "/model.safetensors.index.json", index.dump());
}

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

void GgufWriter::Write(const std::string& path) const {
  std::string header = "GGUF";
  Append(&header, version_);
  Append<uint64_t>(&header, tensors_.size());
  Append(&header, keys_);
  header += metadata_;
  uint64_t position = 0;
  for (const TensorSource& tensor : tensors_) {
    AppendString(&header, tensor.name);
    Append<uint32_t>(&header, tensor.shape.size());
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) Append<uint64_t>(&header, *size);
    Append(&header, GgufTensorType(tensor.dtype));
    Append(&header, position);
    position = AlignUp(position + tensor.bytes(), alignment_);
  }
  header.resize(AlignUp(header.size(), alignment_));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << header;
  for (const TensorSource& tensor : tensors_) {
    std::vector<std::byte> bytes = tensor.make();
    bytes.resize(AlignUp(bytes.size(), alignment_));
    WriteBytes(out, bytes);
  }
  out.close();
  BATON_CHECK(out.good());
}

}  // namespace baton::fakes
