#pragma once

// Answers that grow at the same time, shown one after the other: the first streams while the others wait.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cli {

class ChoiceOrder {
 public:
  explicit ChoiceOrder(uint32_t choices) : texts_(choices), finished_(choices, false) {}

  // Text of one choice came, and whether it was its last. Returns what to print now: with several choices a heading
  // before each. Choices that were not announced are ignored.
  std::string Add(uint32_t choice, std::string_view text, bool finished);

 private:
  std::string Heading(uint32_t choice) const;

  std::vector<std::string> texts_;  // not printed yet
  std::vector<bool> finished_;
  uint32_t shown_ = 0;  // the choice that streams
  bool heading_printed_ = false;
};

}  // namespace baton::cli
