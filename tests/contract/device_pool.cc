#include <numeric>

#include "common/engine/cuda_pool.h"
#include "tests/contract/transport_modes.h"
#include "tests/fakes/cuda/stand_in.h"

namespace baton {

bool DevicePoolsExist() { return true; }

std::unique_ptr<PoolMemory> MakeDevicePool(uint64_t bytes, int devices) {
  stand_in::SetDeviceCount(2);
  // 32 KiB a block.
  const KvLayout layout{.dtype = DType::kBF16, .layers = 2, .kv_heads = 4, .head_dim = 64, .block_size = 16};
  std::vector<int> ordinals(static_cast<size_t>(devices));
  std::iota(ordinals.begin(), ordinals.end(), 0);
  return CudaPool::Create(layout, static_cast<uint32_t>(bytes / layout.BytesPerBlock()), ordinals).value();
}

}  // namespace baton
