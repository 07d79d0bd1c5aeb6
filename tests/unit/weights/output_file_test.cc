#include "common/weights/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/status.h"
#include "tests/fakes/checkpoint_writer.h"

namespace baton::weights {
namespace {

using ::testing::HasSubstr;

TEST(OutputFile, NeverOverwrites) {
  fakes::TemporaryDirectory directory;
  const std::string path = directory / "a";
  ASSERT_TRUE(WriteNewFile(path, "first").ok());
  const absl::Status status = WriteNewFile(path, "second");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusMessage(status), HasSubstr(path));
  EXPECT_EQ(fakes::ReadFile(path), "first");
}

TEST(OutputFile, WhatWasNotClosedIsRemoved) {
  fakes::TemporaryDirectory directory;
  const std::string path = directory / "a";
  {
    auto file = OutputFile::Create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Write("half").ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(OutputFile, ErrorsCarryTheReasonOfTheSystem) {
  fakes::TemporaryDirectory directory;
  EXPECT_THAT(StatusMessage(WriteNewFile(directory / "none/a", "x")), HasSubstr("No such file"));
}

}  // namespace
}  // namespace baton::weights
