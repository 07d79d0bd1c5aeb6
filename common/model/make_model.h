#pragma once

// Checkpoints with random weights of exact real shapes, for benchmarks without downloads.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/base/dtype.h"
#include "common/model/catalogue.h"
#include "common/model/model_config.h"
#include "common/weights/tensor_source.h"

namespace baton::model {

struct MakeModelOptions {
  DType dtype = DType::kBF16;  // f32, bf16, f16; GGUF also q8_0 and q4_0 (embedding and head are q8_0 then)
  FileFormat format = FileFormat::kSafetensors;
  uint64_t seed = 1;
};

// Writes config.json, model.safetensors and the tokenizer's files, or model.gguf, into `directory`, which is made if it
// is not there. FAILED_PRECONDITION when it holds anything, RESOURCE_EXHAUSTED when the disk has less room than the
// weights need; INVALID_ARGUMENT for a format that the file cannot hold. Memory: a few MiB and the vocabulary.
absl::Status MakeModel(const ModelConfig& config, const MakeModelOptions& options, const std::string& directory,
                       const weights::WriteProgress& progress = nullptr);

}  // namespace baton::model
