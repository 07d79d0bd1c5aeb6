#include "common/engine/cuda_step.h"

namespace baton {

CudaStepInputs CudaStepInputs::In(std::byte* memory, const CudaStepLimits& limits) {
  constexpr uint64_t kAlignment = 256;
  CudaStepInputs inputs;
  const auto take = [&]<typename T>(T*& array, uint64_t count) {
    array = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(memory) + inputs.bytes);
    inputs.bytes += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  };
  take(inputs.tokens, limits.rows);
  take(inputs.positions, limits.rows);
  take(inputs.sequences, limits.rows);
  take(inputs.wanted, limits.batch);
  take(inputs.tiles, limits.tiles);
  take(inputs.tables, limits.batch * limits.table_stride);
  return inputs;
}

}  // namespace baton
