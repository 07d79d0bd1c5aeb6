#pragma once

// Reads device memory as fast as it comes, for the ceiling of what a step may take.

#include <cstdint>

#include "kernels/cuda/stream.h"

namespace baton {

// memory: `bytes`, a multiple of 16, aligned to 16. sink: one word, written or not.
cuda::Error ReadMemory(const void* memory, int64_t bytes, int multiprocessors, uint32_t* sink, cuda::Stream stream);

}  // namespace baton
