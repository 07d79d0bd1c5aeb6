#include "tests/contract/transport_modes.h"

namespace baton {

bool DevicePoolsExist() { return false; }
std::unique_ptr<PoolMemory> MakeDevicePool(uint64_t, int) { return nullptr; }

}  // namespace baton
