#include "common/model/make_model.h"

#include <filesystem>
#include <system_error>

#include "common/base/status.h"
#include "common/model/byte_vocabulary.h"
#include "common/model/random_tensors.h"
#include "common/model/write_config.h"
#include "common/weights/encode.h"
#include "common/weights/output_file.h"
#include "common/weights/safetensors_writer.h"

namespace baton::model {
namespace {

absl::StatusOr<RandomFormats> FormatsOf(const ModelConfig& config, const MakeModelOptions& options) {
  const DType dtype = options.dtype;
  const bool quantised = BlockOf(dtype).elements > 1;
  if (!weights::CanEncode(dtype)) return InvalidArgument("random weights cannot be written as %s", DTypeName(dtype));
  if (options.format == FileFormat::kSafetensors) {
    if (quantised) return InvalidArgument("safetensors has no %s; GGUF has", DTypeName(dtype));
    return RandomFormats{dtype, dtype, dtype};
  }
  for (const uint32_t cols : {config.hidden, config.q_rows(), config.intermediate}) {
    if (cols % BlockOf(dtype).elements != 0) {
      return InvalidArgument("rows of %d values are no whole number of %s blocks of %d", cols, DTypeName(dtype),
                             BlockOf(dtype).elements);
    }
  }
  return RandomFormats{dtype, DType::kF32, quantised ? DType::kQ8_0 : dtype};
}

absl::Status PrepareDirectory(const std::string& directory, uint64_t bytes) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return FailedPrecondition("%s: cannot be made: %s", directory, error.message());
  const bool empty = std::filesystem::is_empty(directory, error);
  if (error) return FailedPrecondition("%s: %s", directory, error.message());
  if (!empty) return FailedPrecondition("%s is not empty; nothing is overwritten", directory);
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (!error && space.available < bytes) {
    return ResourceExhausted("the weights need %d bytes, the disk of %s has %d", bytes, directory, space.available);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeModel(const ModelConfig& config, const MakeModelOptions& options, const std::string& directory,
                       const weights::WriteProgress& progress) {
  BATON_ASSIGN_OR_RETURN(const RandomFormats formats, FormatsOf(config, options));
  const std::vector<weights::TensorSource> tensors = RandomTensors(config, options.seed, formats);
  uint64_t bytes = 0;
  for (const weights::TensorSource& tensor : tensors) bytes += tensor.bytes();
  BATON_RETURN_IF_ERROR(PrepareDirectory(directory, bytes));

  if (options.format == FileFormat::kGguf) {
    return GgufOf(config, tensors).Write(directory + "/model.gguf", progress);
  }
  BATON_RETURN_IF_ERROR(weights::WriteNewFile(directory + "/config.json", ConfigJson(config)));
  BATON_RETURN_IF_ERROR(weights::WriteNewFile(directory + "/tokenizer.json", ByteTokenizerJson(config.vocab)));
  BATON_RETURN_IF_ERROR(weights::WriteNewFile(directory + "/tokenizer_config.json", ByteTokenizerConfigJson()));
  return weights::WriteSafetensors(directory + "/model.safetensors", tensors, progress);
}

}  // namespace baton::model
