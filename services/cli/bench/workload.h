#pragma once

// Requests that benches draw, equal for equal seeds on every machine.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace baton::cli {

struct BenchRequest {
  double arrival = 0;  // seconds after the start of the run
  std::vector<TokenId> prompt;
  uint32_t max_tokens = 16;  // exactly so many are generated: ends are ignored
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  uint64_t Bits();   // splitmix64
  double Uniform();  // [0, 1)
  double Exponential(double mean);
  uint32_t Between(uint32_t least, uint32_t most);  // both included
  // Ids below `vocab`, at most 250: in every vocabulary these are ordinary tokens.
  std::vector<TokenId> Prompt(uint32_t tokens, uint32_t vocab);

 private:
  uint64_t state_;
};

// Arrivals of a Poisson process: `count` times, ascending, with exponential gaps of mean 1 / rate.
std::vector<double> PoissonArrivals(double rate, size_t count, Draw* draw);

// A line a request, "ARRIVAL_SECONDS PROMPT_TOKENS MAX_TOKENS", separated by blanks, commas or tabs; '#' begins a
// comment. Sorted by arrival. INVALID_ARGUMENT with the number of the line.
absl::StatusOr<std::vector<BenchRequest>> ParseTrace(const std::string& text, uint32_t vocab, Draw* draw);

}  // namespace baton::cli
