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
// Loads every byte of [data, data + bytes) once, as kernels read weights: four streams, each fetched ahead; what is
// left of a multiple of 4 cache lines is not read. Returns a sum.
int32_t ReadMemory(const void* data, uint64_t bytes);

}  // namespace baton::cpu
