#pragma once

// What the machine could do at best, beside what an engine achieves.

#include "common/base/clock.h"
#include "common/engine/cpu_weights.h"

namespace baton {

struct EnginePeak {
  double flops_per_second = 0;
  double bytes_per_second = 0;
};

// Measures with `threads` (0: one per core), each for `time` and at least once; the best of the tries, since neighbours
// take their share. Operations: the engine's own matrix kernel in f32 on a matrix that stays in cache. Bytes: plain
// reading of the packed weights from first to last, so that a model which fits the last-level cache gets the cache's
// bandwidth, as its decode steps do. Zeros where memory is short.
EnginePeak ProbeCpuPeak(const CpuWeights& weights, int threads, Duration time);

}  // namespace baton
