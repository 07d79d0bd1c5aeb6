// Templates are programs, and model files are untrusted.

#include <chrono>
#include <ctime>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/chat/chat_fixtures.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

std::string Repeat(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlowdown = 10;
#else
constexpr double kSlowdown = 1;
#endif

// Fails if this thread computes for longer than a second while it lives; a busy machine does not count.
class InOneSecond {
 public:
  explicit InOneSecond(const std::string& what) : what_(what.substr(0, 200)) {}
  ~InOneSecond() { EXPECT_LT(Now() - start_, kSlowdown) << what_; }

 private:
  static double Now() {
    std::timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  const std::string what_;
  const double start_ = Now();
};

absl::Status RenderWithin(const std::string& source, RenderLimits limits = {}) {
  const auto chat_template = ParseOrDie(source);
  limits.wall_time = std::chrono::seconds(60);  // sizes and steps alone must keep it short
  const InOneSecond in_one_second(source);
  return RenderText(*chat_template, Conversation({"hi"}), limits).status();
}

void ExpectExhausted(const std::string& source, const std::string& message, const RenderLimits& limits = {}) {
  const absl::Status status = RenderWithin(source, limits);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << source.substr(0, 200) << "\n" << status;
  EXPECT_THAT(StatusMessage(status), HasSubstr(message)) << source.substr(0, 200);
}

TEST(ChatTemplateLimits, TPL_08_NestedLoopsRunOutOfSteps) {
  ExpectExhausted(
      "{% for a in range(999) %}{% for b in range(999) %}{% for c in range(999) %}{% endfor %}{% endfor %}{% endfor %}",
      "more than the limit of");
}

TEST(ChatTemplateLimits, TPL_08_HugeStringsAreRefusedBeforeTheyAreMade) {
  ExpectExhausted("{{ 'x' * 10**9 }}", "a string of 1000000000 bytes, the limit is 16777216");
  ExpectExhausted("{{ 'x' * 10**18 }}", "repeats a value 1000000000000000000 times");
  ExpectExhausted("{% set ns = namespace(s='ab') %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
                  "a string of 33554432 bytes, the limit is 16777216");
}

TEST(ChatTemplateLimits, TPL_08_EveryWayToGrowAStringIsBounded) {
  RenderLimits limits;
  limits.string_bytes = 200'000;
  const std::string grow = "{% set ns = namespace(s='ab') %}{% for i in range(40) %}{% set ns.s = ";
  for (const char* step : {"ns.s ~ ns.s", "ns.s|replace('a', ns.s)", "[ns.s, ns.s]|join", "ns.s.join(['a', 'b', 'c'])",
                           "'%s%s' % (ns.s, ns.s)", "(ns.s ~ '\\n' ~ ns.s)|indent(1000, true)", "[ns.s]|tojson|tojson",
                           "[ns.s, ns.s]|string", "ns.s|e ~ '&&&&&&&&&&&&&'|e ~ ns.s", "ns.s.replace('', ns.s)"}) {
    ExpectExhausted(grow + step + " %}{% endfor %}", "bytes, the limit is", limits);
  }
  ExpectExhausted("{% set s = '\n' * 10000 %}{{ s|indent(1000, true, true) }}", "bytes, the limit is 200000", limits);
  ExpectExhausted("{% set s = '\"' * 110000 %}{{ s|tojson }}", "bytes, the limit is 200000", limits);
}

TEST(ChatTemplateLimits, TPL_08_ListsAndOutputAreBounded) {
  RenderLimits limits;
  limits.output_bytes = 100'000;
  limits.list_items = 10'000;
  ExpectExhausted("{% set s = 'x' * 1000 %}{% for i in range(1000) %}{{ s }}{% endfor %}", "wrote", limits);
  ExpectExhausted("{{ [1] * 10**7 }}", "a list of 10000000 items, the limit is 10000", limits);
  ExpectExhausted("{{ range(10**7) }}", "the limit is 100000", limits);
  ExpectExhausted("{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
                  "a list of", limits);
  ExpectExhausted("{{ ('x' * 20000)|list }}", "a list of", limits);
  ExpectExhausted("{{ ('a,' * 20000).split(',') }}", "a list of", limits);
  ExpectExhausted("{{ ('a ' * 20000).rsplit() }}", "a list of", limits);
  ExpectExhausted("{{ ('a\n' * 20000).splitlines() }}", "a list of", limits);
}

TEST(ChatTemplateLimits, TPL_08_SearchingIsLinear) {
  const std::string prelude =
      "{% set s = 'a' * 1000000 %}{% set t = 'a' * 500000 ~ 'b' %}{% set u = 'b' ~ 'a' * 500000 %}";
  for (const char* search : {"s.find(t)", "s.rfind(u)", "t in s", "s.replace(t, '')", "s.split(t)", "s.rsplit(u)",
                             "s.count(t)", "s.partition(t)", "s.rpartition(u)", "s.strip(t)", "s.index('a')"}) {
    const absl::Status status = RenderWithin(prelude + "{% set _ = " + search + " %}");
    EXPECT_TRUE(status.ok()) << search << ": " << status;
  }
}

TEST(ChatTemplateLimits, TPL_08_MemoryCountsAllStringsThatLive) {
  const auto chat_template = ParseOrDie(
      "{% set s = 'x' * 100000 %}{% set l = [] %}"
      "{% for i in range(200) %}{% set t = s ~ i %}{{ '' if keep is undefined else l.append(t) or '' }}{% endfor %}");
  RenderLimits limits;
  limits.memory_bytes = 8u << 20;
  limits.wall_time = std::chrono::seconds(60);
  EXPECT_TRUE(RenderText(*chat_template, Conversation({"hi"}), limits).ok());
  ChatInput input = Conversation({"hi"});
  input.variables = {{"keep", true}};
  const auto status = RenderText(*chat_template, input, limits).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusMessage(status), HasSubstr("bytes of memory, the limit is 8388608"));
}

TEST(ChatTemplateLimits, TPL_08_RuntimeRecursionIsBounded) {
  ExpectExhausted("{% macro m(a) %}{{ m(a) }}{% endmacro %}{{ m(1) }}", "nests deeper than the limit of 500");
  ExpectExhausted(
      "{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
      "nests deeper");
  ExpectExhausted("{% set l = [1] %}{% set _ = l.append(l) %}{{ l|tojson }}", "nests deeper");
  ExpectExhausted("{% set l = [1] %}{% set k = [1] %}{% set _ = l.append(l) %}{% set _ = k.append(k) %}{{ l == k }}",
                  "nests deeper");
}

TEST(ChatTemplateLimits, TPL_08_DeepSourceIsRefusedWhenParsed) {
  const std::string cases[] = {
      "{{ " + Repeat("[", 10000) + Repeat("]", 10000) + " }}",
      "{{ " + Repeat("(", 10000) + "1" + Repeat(")", 10000) + " }}",
      "{{ " + Repeat("{'a': ", 10000) + "1" + Repeat("}", 10000) + " }}",
      "{{ " + Repeat("not ", 10000) + "1 }}",
      "{{ " + Repeat("- ", 10000) + "1 }}",
      "{{ 1" + Repeat(" + 1", 10000) + " }}",
      "{{ a" + Repeat(".b", 10000) + " }}",
      "{{ a" + Repeat("|list", 10000) + " }}",
      "{{ a" + Repeat(" if b else c", 10000) + " }}",
      "{{ f" + Repeat("(f", 10000) + Repeat(")", 10000) + " }}",
      Repeat("{% if 1 %}", 10000) + Repeat("{% endif %}", 10000),
      Repeat("{% for a in b %}", 10000) + Repeat("{% endfor %}", 10000),
  };
  for (const std::string& source : cases) {
    const InOneSecond in_one_second(source);
    const auto parsed = ChatTemplate::Parse(source, {});
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kFailedPrecondition) << source.substr(0, 40);
    EXPECT_THAT(StatusMessage(parsed.status()), HasSubstr("limit of")) << source.substr(0, 40);
  }
}

TEST(ChatTemplateLimits, TPL_08_DeepArgumentsOfToolsAreRefused) {
  ChatInput input = Conversation({"hi"});
  nlohmann::ordered_json deep = 1;
  for (int i = 0; i < 2000; ++i) deep = nlohmann::ordered_json::array({std::move(deep)});
  input.tools = nlohmann::ordered_json::array({std::move(deep)});
  const auto status = RenderText(*ParseOrDie("{{ tools|tojson }}"), input).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST(ChatTemplateLimits, EveryLimitCanBeSet) {
  const auto chat_template = ParseOrDie("{% for i in range(100) %}{{ [i, 'abc'] }}{% endfor %}");
  const std::pair<RenderLimits, const char*> cases[] = {{{.steps = 100}, "limit of 100 steps"},
                                                        {{.depth = 2}, "limit of 2"},
                                                        {{.output_bytes = 150}, "the limit is 150"},
                                                        {{.string_bytes = 3}, "the limit is 3"},
                                                        {{.list_items = 10}, "the limit is 10"},
                                                        {{.memory_bytes = 1000}, "the limit is 1000"},
                                                        {{.wall_time = std::chrono::milliseconds(0)}, "limit of 0 ms"}};
  EXPECT_TRUE(RenderText(*chat_template, Conversation({"hi"})).ok());
  for (const auto& [limits, message] : cases) {
    const auto status = RenderText(*chat_template, Conversation({"hi"}), limits).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << message;
    EXPECT_THAT(StatusMessage(status), HasSubstr(message));
  }
}

TEST(ChatTemplateLimits, TPL_08_ThousandMessagesPass) {
  const std::string paragraph = Repeat("All happy families are alike. ", 60);
  for (const char* family : {"qwen3", "qwen25", "llama3", "mistral", "gemma", "deepseek", "smollm3", "schema_macro"}) {
    const auto chat_template = ParseOrDie(ReadGolden(std::string("templates/") + family + ".jinja"),
                                          {{"bos_token", "<bos>"}, {"eos_token", "<eos>"}});
    ChatInput input = Conversation(std::vector<std::string>(1000, paragraph));
    RenderLimits limits;
    limits.wall_time = std::chrono::seconds(30);  // sanitizers are slow; steps are what is checked here
    const auto text = RenderText(*chat_template, input, limits);
    ASSERT_TRUE(text.ok()) << family << ": " << text.status();
    EXPECT_GT(text->size(), 1000 * paragraph.size() - 10000);
  }
}

}  // namespace
}  // namespace baton
