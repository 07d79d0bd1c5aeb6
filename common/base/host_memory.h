#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace baton {

// Bytes that this process may still take: what the machine has available, or what is left of the control groups it is
// in (a container's limit), whichever is less. File cache counts as available. Null when nobody says. `root` stands before
// /proc and /sys/fs/cgroup.
std::optional<uint64_t> AvailableMemory(const std::string& root = "");

}  // namespace baton
