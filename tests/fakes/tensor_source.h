#pragma once

// Random weights for tests, reproducible from (seed, name). Every value is a small integer times a power of two, so it
// is the same number in f32, f16, bf16 and q8_0: checkpoints of one seed in different formats hold equal weights.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/model/model_config.h"

namespace baton::fakes {

// A tensor to be written: its bytes are made when they are needed, so large checkpoints need little memory.
struct TensorSource {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<uint64_t> shape;  // outermost first: [rows, cols], or [n]
  std::function<std::vector<std::byte>()> make;

  uint64_t elements() const;
  uint64_t bytes() const { return BytesOf(dtype, elements()); }
};

// `values` (exact in `dtype`: one of f32, f16, bf16, q8_0) in that format.
std::vector<std::byte> Encode(DType dtype, const std::vector<float>& values);

// The values of a tensor of `elements` elements whose rows have `cols` inputs; those of norms lie around 1.
std::vector<float> RandomValues(const std::string& name, uint64_t elements, uint64_t cols, uint64_t seed);

// All weights of a model of this config under their Hugging Face names; matrices in `dtype`, vectors in `vector_dtype`.
std::vector<TensorSource> RandomTensors(const model::ModelConfig& config, uint64_t seed, DType dtype,
                                        DType vector_dtype);

}  // namespace baton::fakes
