#include "common/transport/ucx/ucx_segments.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace baton {
namespace {

constexpr size_t kBytes = 4096;

class UcxSegments : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = "/dev/shm/baton-segments-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
    // Not every kernel has leases of files in memory; without them nothing is ever removed.
    const int descriptor = Create("probe");
    close(descriptor);
    const int alone = open((directory_ + "/probe").c_str(), O_RDONLY);
    const bool leased = fcntl(alone, F_SETLEASE, F_WRLCK) == 0;
    close(alone);
    if (!leased) GTEST_SKIP() << "no leases in /dev/shm";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // As UCX makes one: a descriptor that has it open for writing.
  int Create(const std::string& name) const {
    const int descriptor = open((directory_ + "/" + name).c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    EXPECT_GE(descriptor, 0);
    EXPECT_EQ(ftruncate(descriptor, kBytes), 0);
    return descriptor;
  }
  bool Exists(const std::string& name) const { return std::filesystem::exists(directory_ + "/" + name); }

  std::string directory_;
};

TEST_F(UcxSegments, AreRemovedOnceNobodyHasThemOpenOrMapped) {
  const int descriptor = Create("ucx_shm_posix_1f");
  EXPECT_EQ(RemoveAbandonedUcxSegments(directory_), 0u);
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ASSERT_NE(memory, MAP_FAILED);
  close(descriptor);
  EXPECT_EQ(RemoveAbandonedUcxSegments(directory_), 0u) << "it is mapped";
  EXPECT_TRUE(Exists("ucx_shm_posix_1f"));
  munmap(memory, kBytes);
  EXPECT_EQ(RemoveAbandonedUcxSegments(directory_), 1u);
  EXPECT_FALSE(Exists("ucx_shm_posix_1f"));
}

TEST_F(UcxSegments, FilesOfOthersStay) {
  close(Create("somebody_elses"));
  std::filesystem::create_directory(directory_ + "/ucx_shm_posix_directory");
  std::filesystem::create_symlink(directory_ + "/somebody_elses", directory_ + "/ucx_shm_posix_link");
  EXPECT_EQ(RemoveAbandonedUcxSegments(directory_), 0u);
  EXPECT_TRUE(Exists("somebody_elses"));
  EXPECT_EQ(RemoveAbandonedUcxSegments(directory_ + "/nowhere"), 0u);
}

TEST_F(UcxSegments, OwnOnesLoseTheirNamesBeforeAnEndInBetween) {
  const int own = Create("ucx_shm_posix_2a");
  close(Create("ucx_shm_posix_2b"));
  const int other = Create("other");
  RemoveOwnUcxSegments();
  EXPECT_FALSE(Exists("ucx_shm_posix_2a"));
  EXPECT_TRUE(Exists("ucx_shm_posix_2b")) << "this process has not got it open";
  EXPECT_TRUE(Exists("other"));
  RemoveOwnUcxSegments();  // the link of what has no name any more says so
  close(own);
  close(other);
}

}  // namespace
}  // namespace baton
