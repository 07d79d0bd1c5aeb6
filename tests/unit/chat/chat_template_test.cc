#include "common/text/chat_template.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/chat/chat_fixtures.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ChatTemplate, TPL_01_BlocksAreTrimmedAndStrippedAndOneNewlineIsDropped) {
  EXPECT_EQ(RenderSource("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(RenderSource("a\n{#- c -#}\nb"), "ab");
  EXPECT_EQ(RenderSource("a\n\n"), "a\n");
  EXPECT_EQ(RenderSource("  {# c #}\nb\n  {{ 1 }}\n"), "b\n  1");
  EXPECT_EQ(RenderSource("a  {%- if 1 +%}\nb{%+ endif %}"), "a\nb");
  EXPECT_EQ(RenderSource("a\r\n{% if 1 %}\r\nb\r{% endif %}"), "a\nb\n");
}

TEST(ChatTemplate, TPL_03_LoopsBreak) {
  EXPECT_EQ(RenderSource("{% for i in range(1, 4) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"), "1");
}

TEST(ChatTemplate, TPL_03_NamespaceOutlivesALoopAndAPlainVariableDoesNot) {
  EXPECT_EQ(RenderSource("{% set ns = namespace(f=false) %}{% for i in [1] %}{% set ns.f = true %}{% set p = 1 %}"
                         "{% endfor %}{{ ns.f }} {{ p is defined }}"),
            "True False");
}

TEST(ChatTemplate, TPL_03_LoopsKnowThePreviousItem) {
  EXPECT_EQ(RenderSource("{% for i in [1, 2, 2] %}{{ 'again' if loop.previtem == i else i }} {% endfor %}"),
            "1 2 again ");
}

TEST(ChatTemplate, TPL_03_UndefinedIsEmptyForFiltersLoopsAndPrinting) {
  EXPECT_EQ(RenderSource("{{ u|length }}|{% for x in u %}{% endfor %}|{{ u }}"), "0||");
  EXPECT_THAT(RenderSource("{{ u.x }}"), HasSubstr("'u' is undefined"));
}

TEST(ChatTemplate, TPL_03_DateComesFromTheClockInEnglish) {
  EXPECT_EQ(RenderSource("{{ strftime_now('%d %b %Y') }}"), "04 Mar 2025");
}

TEST(ChatTemplate, TPL_03_ConditionalWithoutElseIsEmpty) { EXPECT_EQ(RenderSource("{{ 1 if false }}"), ""); }

TEST(ChatTemplate, TPL_04_GenerationTagsPrintTheirBodyAndHonourDashes) {
  EXPECT_EQ(
      RenderSource("{% for m in messages %} {%- generation -%} {{ m.content }} {%- endgeneration -%} {% endfor %}"),
      "hi");
  EXPECT_EQ(RenderSource("a {% generation %}\n b{% endgeneration %}\nc"), "a  bc");
}

TEST(ChatTemplate, TPL_04_BadTemplateIsFailedPreconditionWithLineAndColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"ok\n  {% if %}{% endif %}", "line 2, column 9"},
      {"{{ 'x }}", "line 1, column 4"},
      {"a\n\n{% include 'x' %}", "line 3, column 4: unknown tag 'include'"},
      {"{{ x|nothing }}", "no filter named 'nothing'"},
      {"{{ x is nothing }}", "no test named 'nothing'"},
      {"{% for x in y %}", "expected 'endfor', found the end of the template"},
      {"{{ (1, 2] }}", "unexpected ']', expected ')'"},
      {"{# open", "line 1, column 1: missing end of comment"},
      {"{% raw %}", "missing end of raw"},
      {"{% break %}", "outside of a loop"},
      {"{{ 1 ", "unexpected end"},
      {"{{ a b }}", "column 6: expected the end of the expression, found 'b'"},
      {"{{ $ }}", "unexpected character '$'"}};
  for (const auto& [source, message] : cases) {
    const auto parsed = ChatTemplate::Parse(source, {});
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kFailedPrecondition) << source;
    EXPECT_THAT(StatusMessage(parsed.status()), AllOf(HasSubstr("line "), HasSubstr(message))) << source;
  }
}

TEST(ChatTemplate, TPL_04_UnknownFilterInABranchFailsOnlyWhenReached) {
  EXPECT_EQ(RenderSource("{% if u %}{{ 1|nothing }}{% else %}ok{% endif %}{{ 1|nothing if u }}"), "ok");
  EXPECT_THAT(RenderSource("{% if 1 %}{{ 1|nothing }}{% endif %}"), HasSubstr("no filter named 'nothing'"));
}

TEST(ChatTemplate, ModelWithoutATemplateIsFailedPrecondition) {
  EXPECT_EQ(ChatTemplate::Parse("", {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

absl::Status RenderFamily(const std::string& family, const std::vector<std::pair<std::string, std::string>>& turns) {
  const auto chat_template =
      ParseOrDie(ReadGolden("templates/" + family + ".jinja"), {{"bos_token", "<bos>"}, {"eos_token", "<eos>"}});
  ChatInput input;
  for (const auto& [role, content] : turns) input.messages.push_back({{"role", role}, {"content", content}});
  return RenderText(*chat_template, input).status();
}

TEST(ChatTemplate, TPL_06_RaisedMessagesReachTheCallerAsInvalidArgument) {
  const std::pair<absl::Status, const char*> cases[] = {
      {RenderFamily("gemma", {{"system", "s"}, {"user", "u"}}), "System role not supported"},
      {RenderFamily("gemma", {{"user", "u"}, {"user", "u"}}), "Conversation roles must alternate, message 2 does not"},
      {RenderFamily("gemma", {{"assistant", "a"}}), "Conversation roles must alternate, message 1 does not"},
      {RenderFamily("mistral", {{"user", "u"}, {"tool", "t"}}), "A tool message needs tools"}};
  for (const auto& [status, message] : cases) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(StatusMessage(status), std::string("chat template: ") + message);
  }
}

TEST(ChatTemplate, TPL_06_SystemIsMergedIntoTheFirstUserTurnOnlyWhenAskedFor) {
  const auto gemma = ParseOrDie(ReadGolden("templates/gemma.jinja"), {{"bos_token", ""}});
  ChatInput input;
  input.messages = {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "Hi"}}};
  EXPECT_FALSE(gemma->Render(input).ok());
  input.merge_system_into_user = true;
  EXPECT_THAT(RenderText(*gemma, input).value(), StartsWith("<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>"));
}

TEST(ChatTemplate, TPL_09_BosOfTheTemplateIsOneTrustedToken) {
  const auto llama = ParseOrDie(ReadGolden("templates/llama3.jinja"), {{"bos_token", "<|begin_of_text|>"}});
  ChatInput input;
  input.messages = {{{"role", "system"}, {"content", "s"}}, {{"role", "user"}, {"content", "<|begin_of_text|>"}}};
  const auto segments = llama->Render(input).value();
  EXPECT_THAT(segments[0].text, StartsWith("<|begin_of_text|><|start_header_id|>"));
  int trusted = 0;
  for (const TextSegment& segment : segments)
    trusted += segment.trusted && segment.text.find("<|begin_of_text|>") != std::string::npos;
  EXPECT_EQ(trusted, 1);
}

TEST(ChatTemplate, ErrorsNameTheInnermostPlace) {
  EXPECT_EQ(RenderSource("a\n{% if 1 %}\n  {{ 'x' ~ (messages[0].content + 1) }}\n{% endif %}"),
            "<chat template, line 3, column 33: operator + does not work between str and int>");
}

TEST(ChatTemplate, MessagesToolsAndVariablesAreChecked) {
  const auto chat_template =
      ParseOrDie("{{ messages|length }}{{ tools is none }}{{ enable_thinking }}", {{"bos_token", "b"}});
  ChatInput input = Conversation({"hi"});
  input.tools = nlohmann::ordered_json::array();
  input.variables = {{"enable_thinking", false}};
  EXPECT_EQ(RenderText(*chat_template, input).value(), "1TrueFalse");
  for (const char* reserved : {"messages", "tools", "bos_token", "add_generation_prompt", "raise_exception"}) {
    input.variables = {{reserved, "x"}};
    EXPECT_EQ(RenderText(*chat_template, input).status().code(), absl::StatusCode::kInvalidArgument) << reserved;
  }
  input = Conversation({"hi"});
  input.messages.push_back("text");
  EXPECT_THAT(StatusMessage(chat_template->Render(input).status()),
              HasSubstr("message 1 is an object, not of type string"));
  input.messages = {{"role", "user"}};
  EXPECT_EQ(chat_template->Render(input).status().code(), absl::StatusCode::kInvalidArgument);
  input = Conversation({"hi"});
  input.tools = "t";
  EXPECT_EQ(chat_template->Render(input).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplate, TPL_08_TemplateInARequestIsRefused) {
  const auto chat_template = ParseOrDie("x");
  ChatInput input = Conversation({"hi"});
  input.variables = {{"chat_template", "{{ 'y' }}"}};
  const auto status = chat_template->Render(input).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(StatusMessage(status), HasSubstr("chat templates in requests are not accepted"));
}

TEST(ChatTemplate, ContinuedMessageEndsThePrompt) {
  const auto chat_template = ParseOrDie(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{{ '<a>' if add_generation_prompt }}");
  ChatInput input = Conversation({"hi", "It is "});
  input.continue_final_message = true;
  EXPECT_EQ(RenderText(*chat_template, input).value(), "<user>hi</><assistant>It is ");
  input.messages.erase(1);
  EXPECT_EQ(RenderText(*chat_template, input).value(), "<user>hi");
  input.messages[0].erase("content");
  EXPECT_EQ(chat_template->Render(input).status().code(), absl::StatusCode::kInvalidArgument);
  input = Conversation({"hi"});
  input.continue_final_message = true;
  EXPECT_THAT(StatusMessage(ParseOrDie("nothing")->Render(input).status()), HasSubstr("does not print its content"));
}

TEST(ChatTemplate, OneTemplateRendersOnManyThreads) {
  const auto chat_template = ParseOrDie(ReadGolden("templates/qwen3.jinja"));
  const std::string expected = RenderText(*chat_template, Conversation({"a", "b", "c"})).value();
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const auto text = RenderText(*chat_template, Conversation({"a", "b", "c"}));
        equal += text.ok() && *text == expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 80);
}

}  // namespace
}  // namespace baton
