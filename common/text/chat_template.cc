#include "common/text/chat_template.h"

#include <utility>

#include "common/text/chat_variables.h"
#include "common/text/jinja_interpreter.h"
#include "common/text/jinja_parser.h"

namespace baton {

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

absl::StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::Parse(
    std::string source, std::map<std::string, std::string> special_tokens) {
  if (source.empty()) return FailedPrecondition("the model has no chat template");
  std::shared_ptr<ChatTemplate> result(new ChatTemplate());
  BATON_ASSIGN_OR_RETURN(result->program_, jinja::ParseProgram(source));
  result->source_ = std::move(source);
  result->special_tokens_ = std::move(special_tokens);
  return std::shared_ptr<const ChatTemplate>(std::move(result));
}

namespace {

// Ends `prompt` where the message to be continued ends. If the template stripped that message's white space, what
// stands before it goes too, as transformers does it.
absl::Status CutAtMarker(jinja::Text& prompt) {
  size_t begin = 0, marker = std::string::npos;
  for (const jinja::Text::Run& run : prompt.runs()) {
    if (run.origin == jinja::Origin::kMarker) marker = begin;
    begin = run.end;
  }
  if (marker == std::string::npos) {
    return InvalidArgument("the final message cannot be continued: the chat template does not print its content");
  }
  const bool stripped = prompt.bytes().compare(marker, kContinueMarker.size(), kContinueMarker) != 0;
  prompt.Truncate(marker);
  if (stripped) prompt = jinja::Strip(prompt, nullptr, false, true);
  return absl::OkStatus();
}

std::vector<TextSegment> ToSegments(const jinja::Text& prompt) {
  std::vector<TextSegment> segments;
  size_t begin = 0;
  for (const jinja::Text::Run& run : prompt.runs()) {
    const bool trusted = run.origin == jinja::Origin::kTemplate;
    std::string text = prompt.bytes().substr(begin, run.end - begin);
    if (!segments.empty() && segments.back().trusted == trusted) {
      segments.back().text += text;
    } else {
      segments.push_back({std::move(text), trusted});
    }
    begin = run.end;
  }
  return segments;
}

}  // namespace

absl::StatusOr<std::vector<TextSegment>> ChatTemplate::Render(const ChatInput& input, const RenderLimits& limits,
                                                              const WallClock& clock) const {
  jinja::Interpreter interpreter(*program_, limits, clock);
  BATON_RETURN_IF_ERROR(DefineChatVariables(input, special_tokens_, interpreter));
  BATON_ASSIGN_OR_RETURN(jinja::Text prompt, interpreter.Run());
  if (input.continue_final_message) BATON_RETURN_IF_ERROR(CutAtMarker(prompt));
  return ToSegments(prompt);
}

std::string ConcatenateSegments(const std::vector<TextSegment>& segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

}  // namespace baton
