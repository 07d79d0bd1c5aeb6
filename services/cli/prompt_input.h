#pragma once

// The text that the command line stands for.

#include <string>
#include <vector>

namespace baton::cli {

// Words joined by blanks; a single "-" is everything on standard input, one newline at its end left out.
std::string PromptText(const std::vector<std::string>& words);

}  // namespace baton::cli
