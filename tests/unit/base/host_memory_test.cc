#include "common/base/host_memory.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace baton {
namespace {

class HostMemory : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const std::string root_ = testing::TempDir() + "host_memory";
};

TEST_F(HostMemory, OfThisMachineIsSomething) { EXPECT_GT(AvailableMemory().value_or(0), 0u); }

TEST_F(HostMemory, IsUnknownWhereNobodySays) { EXPECT_EQ(AvailableMemory(root_), std::nullopt); }

TEST_F(HostMemory, IsTheMachinesWithoutALimit) {
  Write("/proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 2048 kB\n");
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  Write("/sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(AvailableMemory(root_), 2048u * 1024);
}

TEST_F(HostMemory, IsWhatAContainersLimitLeavesFileCacheAside) {
  Write("/proc/meminfo", "MemAvailable: 2048 kB\n");
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "1000000\n");
  Write("/sys/fs/cgroup/memory.current", "700000\n");
  Write("/sys/fs/cgroup/memory.stat", "anon 500000\ninactive_file 200000\n");
  EXPECT_EQ(AvailableMemory(root_), 500000u);
}

TEST_F(HostMemory, HeedsTheGroupsAbove) {
  Write("/proc/meminfo", "MemAvailable: 2048 kB\n");
  Write("/proc/self/cgroup", "0::/pods/baton\n");
  Write("/sys/fs/cgroup/pods/memory.max", "300000\n");
  Write("/sys/fs/cgroup/pods/memory.current", "100000\n");
  Write("/sys/fs/cgroup/pods/baton/memory.max", "max\n");
  Write("/sys/fs/cgroup/pods/baton/memory.current", "100000\n");
  EXPECT_EQ(AvailableMemory(root_), 200000u);
}

TEST_F(HostMemory, ReadsControlGroupsOfVersion1) {
  Write("/proc/meminfo", "MemAvailable: 2048 kB\n");
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "900000\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "950000\n");
  Write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 150000\n");
  EXPECT_EQ(AvailableMemory(root_), 100000u);
}

TEST_F(HostMemory, IsNothingForAGroupBeyondItsLimit) {
  Write("/proc/meminfo", "MemAvailable: 2048 kB\n");
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "1000\n");
  Write("/sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(AvailableMemory(root_), 0u);
}

}  // namespace
}  // namespace baton
