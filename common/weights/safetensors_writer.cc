#include "common/weights/safetensors_writer.h"

#include <bit>

#include "common/base/status.h"
#include "common/weights/output_file.h"
#include "common/weights/tensor.h"
#include "nlohmann/json.hpp"

namespace baton::weights {
namespace {

absl::StatusOr<std::string> FormatName(const TensorSource& tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
      return std::string("F32");
    case DType::kF16:
      return std::string("F16");
    case DType::kBF16:
      return std::string("BF16");
    default:
      return InvalidArgument("tensor %s is %s; safetensors takes f32, f16 and bf16", Quoted(tensor.name),
                             DTypeName(tensor.dtype));
  }
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, std::span<const TensorSource> tensors,
                              const WriteProgress& progress) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t total = 0;
  for (const TensorSource& tensor : tensors) {
    BATON_ASSIGN_OR_RETURN(const std::string dtype, FormatName(tensor));
    const uint64_t end = total + tensor.bytes();
    header[tensor.name] = {{"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {total, end}}};
    total = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data is aligned
  const uint64_t length = text.size();
  static_assert(std::endian::native == std::endian::little);

  BATON_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(path));
  BATON_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(&length, 1))));
  BATON_RETURN_IF_ERROR(file->Write(text));
  uint64_t done = 0;
  for (const TensorSource& tensor : tensors) {
    BATON_RETURN_IF_ERROR(ForEachPiece(tensor, [&](std::span<const std::byte> piece) -> absl::Status {
      BATON_RETURN_IF_ERROR(file->Write(piece));
      done += piece.size();
      if (progress) progress(done, total);
      return absl::OkStatus();
    }));
  }
  return file->Close();
}

}  // namespace baton::weights
