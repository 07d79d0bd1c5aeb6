#pragma once

// Random weights, reproducible from (seed, name). Every value is a small integer times a power of two, so it is the
// same number in f32, f16, bf16 and q8_0: checkpoints of one seed in these formats hold equal weights. q4_0 rounds.

#include <cstdint>
#include <vector>

#include "common/base/dtype.h"
#include "common/model/model_config.h"
#include "common/weights/tensor_source.h"

namespace baton::model {

struct RandomFormats {
  DType matrices = DType::kBF16;
  DType vectors = DType::kBF16;    // norms and biases
  DType embedding = DType::kBF16;  // and head
};

// All weights of a model of this config under their Hugging Face names. Values are spread so that activations keep
// their size through the layers.
std::vector<weights::TensorSource> RandomTensors(const ModelConfig& config, uint64_t seed,
                                                 const RandomFormats& formats);

}  // namespace baton::model
