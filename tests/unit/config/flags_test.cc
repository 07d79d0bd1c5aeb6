#include "common/config/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/config/number_check.h"

namespace baton {
namespace {

struct Config {
  std::string model;
  uint32_t max_batch = 64;
  double share = 0.5;
  bool prefix_cache = true, message_puts = false;
  std::vector<std::string> workers;
  std::string policy = "auto";
  std::optional<double> pool;
  uint16_t port = 0;
};

std::optional<int> Parse(Config& config, std::vector<const char*> arguments, std::string* error = nullptr) {
  Flags flags("test", "A test.");
  flags.Add("model", &config.model, "Model.");
  flags.Add("max_batch", &config.max_batch, "Slots.", 1, 1024);
  flags.Add("share", &config.share, "Share.", 0, 1);
  flags.Add("prefix_cache", &config.prefix_cache, "Cache.");
  flags.Add("message_puts", &config.message_puts, "Messages.");
  flags.Add("workers", &config.workers, "Workers.");
  flags.Add("pool", &config.pool, "Pool.", 0, 10);
  flags.Add("port", &config.port, "Port.");
  flags.AddChoice("policy", &config.policy, {"auto", "always", "never"}, "Policy.");
  arguments.insert(arguments.begin(), "test");
  testing::internal::CaptureStderr();
  const auto result = flags.Parse(static_cast<int>(arguments.size()), arguments.data());
  const std::string text = testing::internal::GetCapturedStderr();
  if (error) *error = text;
  return result;
}

TEST(Flags, CommandLineFillsTheStruct) {
  Config config;
  ASSERT_EQ(Parse(config,
                  {"--model=demo", "--max_batch", "8", "--prefix_cache=false", "--workers=a:1,b:2", "--policy=never"}),
            std::nullopt);
  EXPECT_EQ(config.model, "demo");
  EXPECT_EQ(config.max_batch, 8u);
  EXPECT_FALSE(config.prefix_cache);
  EXPECT_EQ(config.workers, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_EQ(config.policy, "never");
}

TEST(Flags, ASwitchAloneIsTrueWhateverItsDefault) {
  for (const std::vector<const char*>& arguments : {std::vector<const char*>{"--message_puts", "--prefix_cache"},
                                                    {"--message_puts", "true", "--port=1"},
                                                    {"--message_puts=false", "--message_puts=true"},
                                                    {"--message_puts=false", "--message_puts"}}) {
    Config config;
    ASSERT_EQ(Parse(config, arguments), std::nullopt);
    EXPECT_TRUE(config.message_puts);
    EXPECT_TRUE(config.prefix_cache);
  }
  Config config;
  ASSERT_EQ(Parse(config, {"--message_puts", "--message_puts=false"}), std::nullopt);
  EXPECT_FALSE(config.message_puts);
}

TEST(Flags, HelpShowsTheDefaultOfASwitch) {
  Config config;
  testing::internal::CaptureStdout();
  EXPECT_EQ(Parse(config, {"--help"}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::AllOf(testing::ContainsRegex("--prefix_cache BOOLEAN.{1,2}true"),
                             testing::ContainsRegex("--message_puts BOOLEAN.{1,2}false")));
}

TEST(Flags, AnOptionalNumberIsThereWhenItWasGiven) {
  Config config;
  ASSERT_EQ(Parse(config, {}), std::nullopt);
  EXPECT_EQ(config.pool, std::nullopt);
  ASSERT_EQ(Parse(config, {"--pool=0"}), std::nullopt);
  EXPECT_EQ(config.pool, 0.0);
  std::string error;
  EXPECT_EQ(Parse(config, {"--pool=11"}, &error), 2);
  EXPECT_THAT(error, testing::HasSubstr("pool"));
}

TEST(Flags, EnvironmentFillsWhatTheCommandLineLeaves) {
  setenv("BATON_MAX_BATCH", "9", 1);
  setenv("BATON_MODEL", "from-environment", 1);
  Config config;
  EXPECT_EQ(Parse(config, {"--max_batch=7"}), std::nullopt);
  unsetenv("BATON_MAX_BATCH");
  unsetenv("BATON_MODEL");
  EXPECT_EQ(config.max_batch, 7u);
  EXPECT_EQ(config.model, "from-environment");
}

TEST(Flags, TellsWhichWereSetBeItToTheirDefault) {
  uint32_t batch = 64;
  bool cache = true;
  std::vector<std::string> workers;
  std::string model;
  Flags flags("test", "A test.");
  flags.Add("max_batch", &batch, "Slots.", 1, 1024);
  flags.Add("prefix_cache", &cache, "Cache.");
  flags.Add("workers", &workers, "Workers.");
  flags.Add("model", &model, "Model.");
  setenv("BATON_MODEL", "", 1);
  setenv("BATON_WORKERS", "a:1", 1);
  const char* const arguments[] = {"test", "--max_batch=64"};
  EXPECT_EQ(flags.Parse(2, arguments), std::nullopt);
  unsetenv("BATON_MODEL");
  unsetenv("BATON_WORKERS");
  EXPECT_THAT(flags.Given(), testing::ElementsAre("max_batch", "workers"));
}

TEST(Flags, TheLastOfTwoValuesCounts) {
  Config config;
  ASSERT_EQ(Parse(config, {"--max_batch=8", "--max_batch=9", "--workers=a:1", "--workers=b:2"}), std::nullopt);
  EXPECT_EQ(config.max_batch, 9u);
  EXPECT_EQ(config.workers, (std::vector<std::string>{"a:1", "b:2"}));
}

TEST(Flags, ErrorsNameTheFlagAndTheLimits) {
  Config config;
  std::string error;
  EXPECT_EQ(Parse(config, {"--max_batch=4096"}, &error), 2);
  EXPECT_NE(error.find("--max_batch"), std::string::npos) << error;
  EXPECT_NE(error.find("1024"), std::string::npos) << error;
  EXPECT_EQ(Parse(config, {"--policy=sometimes"}, &error), 2);
  EXPECT_NE(error.find("always"), std::string::npos) << error;
  EXPECT_EQ(Parse(config, {"--prefix_cache=banana"}, &error), 2);
  EXPECT_NE(error.find("--prefix_cache = banana, must be true or false"), std::string::npos) << error;
  EXPECT_EQ(Parse(config, {"--no_such_flag=1"}, &error), 2);
  EXPECT_NE(error.find("no_such_flag"), std::string::npos) << error;
}

TEST(Flags, WholeNumbersAreDecimalAndInRange) {
  for (const char* text : {"0", "1025", "-1", "4294967297", "18446744073709551617", "99999999999999999999999", "010",
                           "0x10", "1.5", "1e2", "", " 8", "8 ", "+8", "many"}) {
    Config config;
    std::string error;
    EXPECT_EQ(Parse(config, {"--max_batch", text}, &error), 2) << text;
    EXPECT_NE(error.find("--max_batch"), std::string::npos) << error;
  }
  Config config;
  std::string error;
  EXPECT_EQ(Parse(config, {"--port=65536"}, &error), 2);
  EXPECT_NE(error.find("'65536' is no whole number from 0 to 65535"), std::string::npos) << error;
  EXPECT_EQ(Parse(config, {"--port=65535", "--max_batch=1024"}), std::nullopt);
  EXPECT_EQ(config.port, 65535);
  EXPECT_EQ(config.max_batch, 1024u);
}

TEST(Flags, RealNumbersAreFiniteAndInRange) {
  for (const char* text : {"nan", "inf", "-0.1", "1.01", "1e999", "half", ""}) {
    Config config;
    EXPECT_EQ(Parse(config, {"--share", text}), 2) << text;
  }
  Config config;
  EXPECT_EQ(Parse(config, {"--share=2.5e-1"}), std::nullopt);
  EXPECT_EQ(config.share, 0.25);
}

TEST(NumberCheck, TakesEveryValueOfAType) {
  const auto error = [](const CLI::Validator& check, std::string text) { return check(text); };
  for (const char* text : {"0", "18446744073709551615"}) EXPECT_EQ(error(WholeNumberCheck<uint64_t>(), text), "");
  for (const char* text : {"18446744073709551616", "-1", "-0"}) {
    EXPECT_NE(error(WholeNumberCheck<uint64_t>(), text), "") << text;
  }
  for (const char* text : {"-2147483648", "2147483647"}) EXPECT_EQ(error(WholeNumberCheck<int32_t>(), text), "");
  for (const char* text : {"-2147483649", "2147483648", "-", "--1"}) {
    EXPECT_NE(error(WholeNumberCheck<int32_t>(), text), "") << text;
  }
}

}  // namespace
}  // namespace baton
