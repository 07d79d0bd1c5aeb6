#include "tests/unit/chat/chat_fixtures.h"

#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace baton {

std::tm GoldenTime() {
  std::tm time{};
  time.tm_year = 2025 - 1900;
  time.tm_mon = 2;
  time.tm_mday = 4;
  time.tm_hour = 15;
  time.tm_min = 6;
  time.tm_sec = 7;
  time.tm_wday = 2;
  time.tm_yday = 62;
  return time;
}

std::string ReadGolden(const std::string& name) {
  const std::string path = std::string(BATON_SOURCE_DIR) + "/tests/golden/chat/" + name;
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

nlohmann::ordered_json ReadGoldenJson(const std::string& name) {
  return nlohmann::ordered_json::parse(ReadGolden(name));
}

std::shared_ptr<const ChatTemplate> ParseOrDie(const std::string& source,
                                               std::map<std::string, std::string> special_tokens) {
  auto parsed = ChatTemplate::Parse(source, std::move(special_tokens));
  EXPECT_TRUE(parsed.ok()) << parsed.status() << "\n" << source;
  return parsed.ok() ? *parsed : nullptr;
}

ChatInput Conversation(const std::vector<std::string>& contents) {
  ChatInput input;
  for (size_t i = 0; i < contents.size(); ++i) {
    input.messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", contents[i]}});
  }
  return input;
}

ChatInput ReadConversation(const nlohmann::ordered_json& json) {
  ChatInput input;
  input.messages = json.at("messages");
  input.tools = json.value("tools", nlohmann::ordered_json());
  input.variables = json.value("variables", nlohmann::ordered_json());
  input.add_generation_prompt = json.value("add_generation_prompt", false);
  input.continue_final_message = json.value("continue_final_message", false);
  return input;
}

absl::StatusOr<std::string> RenderText(const ChatTemplate& chat_template, const ChatInput& input,
                                       const RenderLimits& limits) {
  BATON_ASSIGN_OR_RETURN(const std::vector<TextSegment> segments, chat_template.Render(input, limits, GoldenTime));
  return ConcatenateSegments(segments);
}

std::string RenderSource(const std::string& source) {
  const auto parsed = ParseOrDie(source);
  if (parsed == nullptr) return "<no template>";
  const absl::StatusOr<std::string> text = RenderText(*parsed, Conversation({"hi"}));
  return text.ok() ? *text : "<" + StatusMessage(text.status()) + ">";
}

}  // namespace baton
