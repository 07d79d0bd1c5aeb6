#include "services/cli/bar.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "services/cli/format.h"

namespace baton::cli {

namespace {

// "reading weights  [#####...............]  25%"
std::string LabelledBar(const std::string& label, uint64_t done, uint64_t total, size_t width) {
  const double ratio = total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<size_t>(ratio * static_cast<double>(width));
  return absl::StrFormat("%s  [%s%s] %3d%%", label, std::string(filled, '#'), std::string(width - filled, '.'),
                         static_cast<int>(ratio * 100));
}

}  // namespace

std::string ProgressLine(const std::string& label, uint64_t done, uint64_t total, size_t width) {
  done = std::min(done, total);
  return absl::StrFormat("%s  %s of %s", LabelledBar(label, done, total, width), FormatBytes(static_cast<double>(done)),
                         FormatBytes(static_cast<double>(total)));
}

std::string StepsLine(const std::string& label, uint64_t done, uint64_t total, const std::string& now, size_t width) {
  done = std::min(done, total);
  return absl::StrFormat("%s  %d of %d: %s", LabelledBar(label, done, total, width), done, total, now);
}

std::string ShareBar(const std::vector<Share>& shares, size_t width) {
  uint64_t total = 0;
  for (const Share& share : shares) total += share.amount;
  if (total == 0) return std::string(width, ' ');

  // One character for every share there is, then always to the share that is furthest below its part.
  std::vector<size_t> lengths(shares.size(), 0);
  size_t left = width;
  for (size_t i = 0; i < shares.size() && left > 0; ++i) {
    if (shares[i].amount == 0) continue;
    lengths[i] = 1;
    --left;
  }
  for (; left > 0; --left) {
    size_t best = 0;
    double most = -1e300;
    for (size_t i = 0; i < shares.size(); ++i) {
      if (shares[i].amount == 0) continue;
      const double part = static_cast<double>(shares[i].amount) / static_cast<double>(total);
      const double missing = part * static_cast<double>(width) - static_cast<double>(lengths[i]);
      if (missing > most) {
        most = missing;
        best = i;
      }
    }
    ++lengths[best];
  }
  std::string bar;
  for (size_t i = 0; i < shares.size(); ++i) bar.append(lengths[i], shares[i].symbol);
  return bar;
}

}  // namespace baton::cli
