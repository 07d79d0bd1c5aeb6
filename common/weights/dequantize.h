#pragma once

// Plain scalar conversion of any weight format to f32. Faster code elsewhere is compared with this.

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"

namespace baton::weights {

// `elements` is a whole number of blocks; `in` has BytesOf(dtype, elements) bytes and any alignment.
void Dequantize(DType dtype, const std::byte* in, uint64_t elements, float* out);

}  // namespace baton::weights
