#include "services/cli/bench/workload.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "common/base/status.h"

namespace baton::cli {

uint64_t Draw::Bits() {
  uint64_t bits = state_ += 0x9e3779b97f4a7c15ull;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
  return bits ^ (bits >> 31);
}

double Draw::Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }

double Draw::Exponential(double mean) { return -mean * std::log1p(-Uniform()); }

uint32_t Draw::Between(uint32_t least, uint32_t most) {
  return least + static_cast<uint32_t>(Bits() % (uint64_t{most} - least + 1));
}

std::vector<TokenId> Draw::Prompt(uint32_t tokens, uint32_t vocab) {
  std::vector<TokenId> prompt(tokens);
  for (TokenId& id : prompt) id = static_cast<TokenId>(Between(0, std::min(vocab, 250u) - 1));
  return prompt;
}

std::vector<double> PoissonArrivals(double rate, size_t count, Draw* draw) {
  std::vector<double> arrivals;
  double now = 0;
  while (arrivals.size() < count) arrivals.push_back(now += draw->Exponential(1 / rate));
  return arrivals;
}

absl::StatusOr<std::vector<BenchRequest>> ParseTrace(const std::string& text, uint32_t vocab, Draw* draw) {
  std::vector<BenchRequest> requests;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    std::string rest;
    double arrival = 0;
    int64_t prompt = 0, tokens = 0;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!(fields >> arrival >> prompt >> tokens) || fields >> rest || !(arrival >= 0 && arrival < 1e6) || prompt < 1 ||
        prompt > 1 << 20 || tokens < 1 || tokens > 1 << 20) {
      return InvalidArgument("line %d of the trace is not ARRIVAL_SECONDS PROMPT_TOKENS MAX_TOKENS", number);
    }
    requests.push_back({arrival, draw->Prompt(static_cast<uint32_t>(prompt), vocab), static_cast<uint32_t>(tokens)});
  }
  if (requests.empty()) return InvalidArgument("the trace holds no request");
  std::stable_sort(requests.begin(), requests.end(),
                   [](const BenchRequest& a, const BenchRequest& b) { return a.arrival < b.arrival; });
  return requests;
}

}  // namespace baton::cli
