#include "common/telemetry/log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

TEST(Logger, WritesOneJsonObjectALine) {
  testing::internal::CaptureStderr();
  Logger("baton-test", LogLevel::kInfo)
      .Info("lease expired", {{"request_id", "r\"1\n"}, {"lease", 7u}, {"late", true}});
  const std::string out = testing::internal::GetCapturedStderr();
  ASSERT_EQ(out.find('\n'), out.size() - 1);
  const auto line = nlohmann::json::parse(out);
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["program"], "baton-test");
  EXPECT_EQ(line["message"], "lease expired");
  EXPECT_EQ(line["request_id"], "r\"1\n");
  EXPECT_EQ(line["lease"], 7);
  EXPECT_EQ(line["late"], true);
}

TEST(Logger, TextThatIsNotUtf8KeepsTheLine) {
  testing::internal::CaptureStderr();
  Logger("baton-test", LogLevel::kInfo).Error("bad", {{"text", "\xff\xfe"}});
  EXPECT_EQ(nlohmann::json::parse(testing::internal::GetCapturedStderr())["text"], "\uFFFD\uFFFD");
}

TEST(Logger, DropsLinesBelowItsLevel) {
  testing::internal::CaptureStderr();
  Logger("baton-test", LogLevel::kWarning).Info("hidden");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace baton
