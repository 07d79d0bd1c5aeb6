#include "services/cli/choice_order.h"

namespace baton::cli {

std::string ChoiceOrder::Heading(uint32_t choice) const {
  if (texts_.size() == 1) return "";
  return "=== choice " + std::to_string(choice) + " ===\n";
}

std::string ChoiceOrder::Add(uint32_t choice, std::string_view text, bool finished) {
  if (choice >= texts_.size() || finished_[choice]) return "";
  texts_[choice] += text;
  finished_[choice] = finished;

  std::string print;
  while (shown_ < texts_.size()) {
    if (!heading_printed_ && (!texts_[shown_].empty() || finished_[shown_])) {
      print += Heading(shown_);
      heading_printed_ = true;
    }
    print += texts_[shown_];
    texts_[shown_].clear();
    if (!finished_[shown_]) break;
    print += '\n';
    ++shown_;
    heading_printed_ = false;
  }
  return print;
}

}  // namespace baton::cli
