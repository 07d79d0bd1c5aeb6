#pragma once

// Logits in blocks of 64, so that a choice need not look at all of them again: what can matter lies in the few blocks
// whose maximum is high enough. Vectorised for the machine at hand; every element goes through the same operations
// whatever the width, so the results do not depend on it. NaN and infinite logits count as impossible.

#include <cstddef>
#include <cstdint>
#include <span>

namespace baton {

inline constexpr size_t kLogitBlock = 64;

inline size_t LogitBlocks(size_t logits) { return (logits + kLogitBlock - 1) / kLogitBlock; }
inline std::span<const float> LogitBlockAt(std::span<const float> logits, size_t block) {
  return logits.subspan(block * kLogitBlock)
      .first(logits.size() - block * kLogitBlock < kLogitBlock ? logits.size() - block * kLogitBlock : kLogitBlock);
}

// maxima[b] = largest possible logit of block b, -inf when none is. maxima: [LogitBlocks(logits.size())].
void BlockMaxima(std::span<const float> logits, std::span<float> maxima);

// weights[i] = exp((block[i] - max) / temperature), 0 for an impossible one. block: at most kLogitBlock logits.
void BlockWeights(std::span<const float> block, float max, float temperature, float* weights);

// masses[b] = sum of WeightMass over block b; returns the sum of all.
uint64_t BlockMasses(std::span<const float> logits, std::span<const float> maxima, float max, float temperature,
                     std::span<uint64_t> masses);

}  // namespace baton
