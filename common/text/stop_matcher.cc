#include "common/text/stop_matcher.h"

#include <deque>
#include <utility>

#include "common/text/utf8.h"

namespace baton {

absl::StatusOr<std::shared_ptr<const StopStrings>> StopStrings::Create(std::vector<std::string> stops) {
  auto result = std::make_shared<StopStrings>();
  std::vector<State>& states = result->states_;
  states.emplace_back();
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) return InvalidArgument("stop string %d is empty", i);
    if (auto bad = FirstInvalidUtf8(stops[i])) {
      return InvalidArgument("stop string %d is not valid UTF-8 at byte %d", i, *bad);
    }
    uint32_t state = 0;
    for (const char c : stops[i]) {
      auto [entry, inserted] = states[state].next.try_emplace(static_cast<uint8_t>(c), states.size());
      const uint32_t next = entry->second;
      if (inserted) {
        const uint32_t depth = states[state].depth + 1;
        states.emplace_back().depth = depth;
      }
      state = next;
    }
    if (states[state].match < 0) states[state].match = static_cast<int32_t>(i);
  }
  // Breadth first: a state's fallback is less deep, so it is complete when it is needed.
  std::deque<uint32_t> queue = {0};
  while (!queue.empty()) {
    const uint32_t state = queue.front();
    queue.pop_front();
    for (const auto& [byte, next] : states[state].next) {
      if (state != 0) states[next].fallback = result->Next(states[state].fallback, byte);
      if (states[next].match < 0) states[next].match = states[states[next].fallback].match;
      queue.push_back(next);
    }
  }
  result->stops_ = std::move(stops);
  return std::shared_ptr<const StopStrings>(std::move(result));
}

uint32_t StopStrings::Next(uint32_t state, uint8_t byte) const {
  while (true) {
    const auto entry = states_[state].next.find(byte);
    if (entry != states_[state].next.end()) return entry->second;
    if (state == 0) return 0;
    state = states_[state].fallback;
  }
}

StopMatcher::StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {}

std::string StopMatcher::Add(std::string_view text) {
  if (matched()) return "";
  std::string out = std::move(held_);
  held_.clear();
  const size_t before = out.size();
  out.append(text);
  for (size_t i = 0; i < text.size(); ++i) {
    state_ = stops_->Next(state_, static_cast<uint8_t>(text[i]));
    match_ = stops_->states_[state_].match;
    if (matched()) {
      out.resize(before + i + 1 - (include_stop_ ? 0 : matched_stop().size()));
      return out;
    }
  }
  // A stop string begins with a whole character, so the held part does, too.
  const size_t safe = out.size() - stops_->states_[state_].depth;
  held_ = out.substr(safe);
  out.resize(safe);
  return out;
}

std::string StopMatcher::Finish() {
  state_ = 0;
  return std::exchange(held_, "");
}

}  // namespace baton
