#pragma once

// Chat templates: the subset of Jinja that published models use, rendered as transformers renders it (trim_blocks,
// lstrip_blocks, one trailing newline dropped), in a sandbox.
//
// Templates are programs and model files are untrusted, so every render has budgets. Callers are untrusted too, so the
// result says which characters the template wrote itself and which came out of the caller's data (see TextSegment).

#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/render_limits.h"
#include "common/text/text_segment.h"
#include "nlohmann/json.hpp"

namespace baton {

namespace jinja {
struct Program;
}

// One conversation. JSON keeps the order of keys: it shows in what `tojson` prints.
struct ChatInput {
  // Array of objects: role, content (string or array of parts), tool_calls, tool_call_id, name, reasoning_content...
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  // Array of {"type": "function", "function": {...}}; null or empty: no tools.
  nlohmann::ordered_json tools;
  // Further template variables, e.g. {"enable_thinking": false}; null or an object. The template's own inputs
  // (messages, tools, bos_token, chat_template...) cannot be set here: INVALID_ARGUMENT.
  nlohmann::ordered_json variables;
  bool add_generation_prompt = true;  // ignored with continue_final_message
  // The last message's content is the beginning of the answer: the prompt ends where that content ends.
  bool continue_final_message = false;
  // Put a leading system message in front of the first user message, for templates that know no system role.
  bool merge_system_into_user = false;
};

// Where strftime_now gets the time; LocalTime unless a test says otherwise.
using WallClock = std::function<std::tm()>;
std::tm LocalTime();

// Immutable after Parse; Render may be called from any number of threads.
class ChatTemplate {
 public:
  // `special_tokens`: template variables that come from the tokenizer, such as bos_token and eos_token; trusted text.
  // FAILED_PRECONDITION with line and column if `source` is no valid template, and if it is empty (the model has none).
  // An owner keeps that status and returns it to chat calls: a bad template spoils no other use of the model.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Parse(std::string source,
                                                                   std::map<std::string, std::string> special_tokens);

  // The prompt in order, neighbours of unequal trust. INVALID_ARGUMENT: the template's own raise_exception, with its
  // message, or messages it cannot work with, with line and column. RESOURCE_EXHAUSTED: a limit, with its number.
  // Well-known roles (system, user, assistant, tool...) count as trusted, as templates build control tokens from them.
  absl::StatusOr<std::vector<TextSegment>> Render(const ChatInput& input, const RenderLimits& limits = {},
                                                  const WallClock& clock = LocalTime) const;

  const std::string& source() const { return source_; }

 private:
  ChatTemplate() = default;

  std::string source_;
  std::map<std::string, std::string> special_tokens_;
  std::shared_ptr<const jinja::Program> program_;
};

// All text of `segments`, trusted or not.
std::string ConcatenateSegments(const std::vector<TextSegment>& segments);

}  // namespace baton
