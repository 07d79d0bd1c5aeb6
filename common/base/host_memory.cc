#include "common/base/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

namespace baton {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// The number behind `key` in lines of "key number ...".
std::optional<uint64_t> FieldOf(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name, rest;
  for (uint64_t value; file >> name >> value; std::getline(file, rest)) {
    if (name == key) return value;
  }
  return std::nullopt;
}

// Version 2 writes "max" for no limit, version 1 a number beyond every memory.
std::optional<uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache;  // in memory.stat, of the group and those below it
};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file"};

uint64_t LeftOf(const std::string& folder, const GroupFiles& files) {
  const auto limit = NumberIn(folder + files.limit);
  const auto usage = NumberIn(folder + files.usage);
  if (!limit || !usage) return kNoLimit;
  const uint64_t cache = FieldOf(folder + "/memory.stat", files.cache).value_or(0);
  const uint64_t taken = *usage - std::min(cache, *usage);
  return *limit - std::min(taken, *limit);
}

// Of a group and all above it. What a container sees as /proc/self/cgroup may lie above its own mount: folders that
// are not there limit nothing.
uint64_t LeftUpwards(const std::string& mount, std::string group, const GroupFiles& files) {
  uint64_t left = LeftOf(mount, files);
  while (group.size() > 1) {
    left = std::min(left, LeftOf(mount + group, files));
    group.resize(group.rfind('/'));
  }
  return left;
}

}  // namespace

std::optional<uint64_t> AvailableMemory(const std::string& root) {
  const auto kib = FieldOf(root + "/proc/meminfo", "MemAvailable:");
  uint64_t available = kib ? *kib * 1024 : kNoLimit;
  std::ifstream groups(root + "/proc/self/cgroup");
  // id:controllers:/path; version 2 has no controllers there.
  for (std::string line; std::getline(groups, line);) {
    const size_t controllers = line.find(':');
    const size_t path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = line.substr(controllers + 1, path - controllers - 1);
    const std::string group = line.substr(path + 1);
    if (!group.starts_with('/')) continue;
    if (names.empty()) available = std::min(available, LeftUpwards(root + "/sys/fs/cgroup", group, kVersion2));
    if (names == "memory") {
      available = std::min(available, LeftUpwards(root + "/sys/fs/cgroup/memory", group, kVersion1));
    }
  }
  return available == kNoLimit ? std::nullopt : std::optional(available);
}

}  // namespace baton
