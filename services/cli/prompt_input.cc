#include "services/cli/prompt_input.h"

#include <iostream>
#include <iterator>

namespace baton::cli {

std::string PromptText(const std::vector<std::string>& words) {
  std::string text;
  if (words.size() == 1 && words[0] == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    if (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace baton::cli
