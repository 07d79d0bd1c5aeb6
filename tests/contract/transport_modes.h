#pragma once

// Every transport and way of moving bytes that this program and machine have, for tests that run one body over all of
// them.

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "common/kv/pool_memory.h"
#include "common/transport/catalogue.h"
#include "common/transport/local/local_transport.h"

namespace baton {

// What the writer role of transport_peer covers again and again.
inline constexpr uint64_t kWriterBytes = 4 << 20;

struct TransportMode {
  std::string label;      // as in test names
  std::string transport;  // catalogue name
  std::string ucx_tls;
  bool message_puts = false;
  std::string lane;        // what sessions must say
  bool refusable = false;  // the target's gate is asked
  int devices = 0;         // that hold the pool; 0: the transport allocates it

  TransportOptions Options(std::shared_ptr<LocalNetwork> network = nullptr) const {
    TransportOptions options;
    options.name = transport;
    options.ucx_tls = ucx_tls;
    options.message_puts = message_puts;
    options.device_pool = devices > 0;
    options.local_network = std::move(network);
    return options;
  }
  friend std::ostream& operator<<(std::ostream& out, const TransportMode& mode) { return out << mode.label; }
};

// Whether this program is one that keeps its pools in memory of devices, and such a pool of `bytes`.
bool DevicePoolsExist();
std::unique_ptr<PoolMemory> MakeDevicePool(uint64_t bytes, int devices);

inline std::vector<TransportMode> AllTransportModes() {
  std::vector<TransportMode> modes = {
      {"LocalOneSided", "local", "", false, "local", false},
      {"LocalMessages", "local", "", true, "local", true},
      {"UcxSharedMemory", "ucx", "", false, "shm", false},
      {"UcxTcp", "ucx", "tcp,self", false, "tcp", true},
      {"UcxMessages", "ucx", "", true, "tcp", true},
      {"LocalOneSidedDevice", "local", "", false, "local", false, 1},
      {"LocalMessagesTwoDevices", "local", "", true, "local", true, 2},
      {"UcxStaged", "ucx", "", false, "tcp", true, 1},
      {"Nccl", "nccl", "", false, "nccl", true, 1},
      {"NcclTwoDevices", "nccl", "", false, "nccl", true, 2},
  };
  // Another program's, not in this build, or without its device.
  std::erase_if(modes, [](const TransportMode& mode) {
    return (mode.devices > 0) != DevicePoolsExist() ||
           absl::IsFailedPrecondition(MakeTransport(mode.Options()).status());
  });
  return modes;
}

// Those between processes.
inline std::vector<TransportMode> ProcessTransportModes() {
  std::vector<TransportMode> modes = AllTransportModes();
  std::erase_if(modes, [](const TransportMode& mode) { return mode.transport == "local"; });
  return modes;
}

}  // namespace baton
