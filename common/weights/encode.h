#pragma once

// From f32 to the formats that checkpoints are written in.

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"

namespace baton::weights {

// f32, f16, bf16 (rounded to nearest even), q8_0 and q4_0. `elements` is a whole number of blocks; `out` has
// BytesOf(dtype, elements) bytes and any alignment.
//
// A q8_0 block takes the finest power of two as scale that keeps its largest value within 127: values that are 8-bit
// integers times one power of two stay exactly what they are. A q4_0 block takes the value of largest magnitude as its
// -8.
void Encode(DType dtype, const float* values, uint64_t elements, std::byte* out);

bool CanEncode(DType dtype);

}  // namespace baton::weights
