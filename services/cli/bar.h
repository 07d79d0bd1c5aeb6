#pragma once

// Bars of characters: progress of long work, and shares of a whole.

#include <cstdint>
#include <string>
#include <vector>

namespace baton::cli {

// "reading weights  [#####...............]  25%  256.0 MiB of 1.00 GiB"; `total` 0 is an empty bar at 0%.
std::string ProgressLine(const std::string& label, uint64_t done, uint64_t total, size_t width = 20);

// "batching  [##..................]  12%  3 of 25: continuous, 3 requests"
std::string StepsLine(const std::string& label, uint64_t done, uint64_t total, const std::string& now,
                      size_t width = 20);

struct Share {
  char symbol;
  uint64_t amount;
};
// `width` characters split by amount, in order. A share above zero gets at least one character as long as there are
// enough of them; all amounts zero gives blanks.
std::string ShareBar(const std::vector<Share>& shares, size_t width);

}  // namespace baton::cli
