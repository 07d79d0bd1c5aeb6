// Prompts byte for byte as transformers renders them; see tests/golden/chat/README.md.

#include <cstdlib>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/chat/chat_fixtures.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class ChatGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(ChatGolden, TPL_01_PromptsOfTheFamilyEqualJinja2) {
  const auto golden = ReadGoldenJson("families.json");
  const auto special_tokens = golden["special_tokens"].get<std::map<std::string, std::string>>();
  const auto chat_template = ParseOrDie(ReadGolden("templates/" + GetParam() + ".jinja"), special_tokens);
  ASSERT_NE(chat_template, nullptr);
  int compared = 0;
  for (const auto& expected : golden["cases"]) {
    if (expected["template"] != GetParam()) continue;
    const auto name = expected["conversation"].get<std::string>();
    SCOPED_TRACE(name);
    const auto prompt = RenderText(*chat_template, ReadConversation(golden["conversations"][name]));
    ++compared;
    if (expected.contains("expected")) {
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      EXPECT_EQ(*prompt, expected["expected"].get<std::string>());
      continue;
    }
    EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument) << prompt.status();
    if (expected["raised"].get<bool>()) {  // the template's own message
      EXPECT_THAT(StatusMessage(prompt.status()), HasSubstr(expected["error"].get<std::string>()));
    } else {
      EXPECT_THAT(StatusMessage(prompt.status()), HasSubstr("line "));
    }
  }
  EXPECT_GT(compared, 15);
}

INSTANTIATE_TEST_SUITE_P(Families, ChatGolden,
                         ::testing::Values("deepseek", "gemma", "llama3", "mistral", "phi", "qwen25", "qwen3",
                                           "schema_macro", "smollm2", "smollm3"),
                         [](const auto& family) { return family.param; });

void CompareAll(const std::string& file) {
  const auto golden = ReadGoldenJson(file);
  const ChatInput input = ReadConversation({{"messages", golden["messages"]}});
  for (const auto& expected : golden["cases"]) {
    const auto source = expected["template"].get<std::string>();
    const auto chat_template = ParseOrDie(source);
    ASSERT_NE(chat_template, nullptr);
    const auto prompt = RenderText(*chat_template, input);
    ASSERT_TRUE(prompt.ok()) << prompt.status() << "\n" << source;
    EXPECT_EQ(*prompt, expected["expected"].get<std::string>()) << source;
  }
}

TEST(ChatGoldenTemplates, ExpressionsAndStatementsEqualJinja2) { CompareAll("expressions.json"); }

TEST(ChatGoldenTemplates, RandomTemplatesEqualJinja2) { CompareAll("random.json"); }

TEST(ChatGoldenTemplates, TPL_01_PublishedQwen3TemplateEqualsJinja2) {
  const char* data = std::getenv("BATON_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "BATON_TEST_DATA is not set";
  std::ifstream file(std::string(data) + "/qwen3/tokenizer_config.json");
  ASSERT_TRUE(file.good());
  const auto config = nlohmann::ordered_json::parse(file);
  const auto chat_template = ParseOrDie(config["chat_template"].get<std::string>());
  const auto conversations = ReadGoldenJson("families.json")["conversations"];
  const auto golden = ReadGoldenJson("qwen3.json");
  for (const auto& expected : golden["cases"]) {
    const auto name = expected["conversation"].get<std::string>();
    const auto prompt = RenderText(*chat_template, ReadConversation(conversations[name]));
    ASSERT_TRUE(prompt.ok()) << name << ": " << prompt.status();
    EXPECT_EQ(*prompt, expected["expected"].get<std::string>()) << name;
  }
}

}  // namespace
}  // namespace baton
