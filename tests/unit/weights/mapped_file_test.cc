#include "common/weights/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/base/status.h"
#include "tests/fakes/checkpoint_writer.h"

namespace baton::weights {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::span<std::byte> Bytes(std::string& text) { return std::as_writable_bytes(std::span(text)); }

class MappedFileTest : public testing::Test {
 protected:
  fakes::TemporaryDirectory directory_;
  const std::string path_ = directory_ / "file";
};

TEST_F(MappedFileTest, MappedAndCopiedBytesAreTheFile) {
  fakes::WriteFile(path_, "0123456789");
  const auto file = MappedFile::Open(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 10u);
  EXPECT_EQ(static_cast<char>((*file)->bytes()[9]), '9');
  std::string copy(4, ' ');
  EXPECT_TRUE((*file)->Read(3, Bytes(copy)).ok());
  EXPECT_EQ(copy, "3456");
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
}

TEST_F(MappedFileTest, EmptyFileOpens) {
  fakes::WriteFile(path_, "");
  const auto file = MappedFile::Open(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 0u);
}

TEST_F(MappedFileTest, ReadPastTheEndIsRefusedWithoutOverflow) {
  fakes::WriteFile(path_, "0123456789");
  const auto file = MappedFile::Open(path_);
  std::string copy(4, ' ');
  EXPECT_EQ((*file)->Read(7, Bytes(copy)).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ((*file)->Read(UINT64_MAX - 1, Bytes(copy)).code(), absl::StatusCode::kDataLoss);
}

// One byte is the nasty length: a mapping would read a zero there, without any signal.
TEST_F(MappedFileTest, MDL_04_LateTruncationIsReportedNotReadAsZeros) {
  for (const uint64_t size : {9999u, 5000u, 0u}) {
    fakes::WriteFile(path_, std::string(10000, 'x'));
    const auto file = MappedFile::Open(path_);
    ASSERT_TRUE(file.ok());
    std::filesystem::resize_file(path_, size);
    std::string copy(10000, ' ');
    const absl::Status status = (*file)->Read(0, Bytes(copy));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(StatusMessage(status), AllOf(HasSubstr(path_), HasSubstr(std::to_string(size)), HasSubstr("10000")));
    EXPECT_EQ((*file)->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(MappedFileTest, OverwritingInPlaceIsNoticed) {
  fakes::WriteFile(path_, "0123456789");
  const auto file = MappedFile::Open(path_);
  fakes::WriteFile(path_, "9876543210");
  std::filesystem::last_write_time(path_, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ((*file)->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

TEST_F(MappedFileTest, OnlyRegularFilesOpen) {
  EXPECT_EQ(MappedFile::Open(directory_ / "missing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(directory_.path()).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace baton::weights
