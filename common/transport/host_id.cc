#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "common/base/hash.h"
#include "common/transport/control_messages.h"

namespace baton {

std::string LocalHostId() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  std::array<char, 64> link{};
  const ssize_t size = readlink("/proc/self/ns/net", link.data(), link.size());
  // A system that hides these must not look like every other such one.
  if (boot_id.empty() || size <= 0) boot_id += "unknown " + std::to_string(RandomU64());
  return boot_id + "/" + std::string(link.data(), size > 0 ? static_cast<size_t>(size) : 0);
}

}  // namespace baton
