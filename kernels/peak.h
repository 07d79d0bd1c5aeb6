#pragma once

// What the arithmetic units can do at most: chains of the very instructions that matrix kernels are made of, in
// registers. For ceilings of benchmarks; computes nothing of use.

#include <cstdint>

namespace baton::cpu {

// Each runs `rounds` rounds on the calling thread and returns the operations done (a multiply-add counts two). The
// results go to `*sink`, so that no work is left out.
double RunFmaRounds(int64_t rounds, float* sink);
// 8-bit multiply-adds into 32-bit sums, by the widest instruction of the running target that kernels use.
double RunInt8Rounds(int64_t rounds, int32_t* sink);

}  // namespace baton::cpu
