#pragma once

// Quantised blocks taken apart, for engines that compute with codes: groups of 32 neighbouring values of a row, a scale
// each and, where the format has them, a minimum.

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"

namespace baton::weights {

inline constexpr uint64_t kCodeGroup = 32;

// value = scale * (code - offset) + minimum
struct CodeGroups {
  uint8_t* codes;      // [elements]
  uint16_t* scales;    // [elements / 32] f16
  uint16_t* minimums;  // [elements / 32] f16; written for q4_1 and q4_k only
};

// q8_0 (offset 128), q4_0 (offset 8), q4_1 and q4_k (no offset, minimum). Other formats have no such groups.
bool HasCodeGroups(DType dtype);

// `elements` is a whole number of blocks of a format that has groups. Nothing is rounded but q4_k's scales and
// minimums: there they are products of an f16 and a 6-bit number, rounded to f16 here (relative error at most 2^-11).
void UnpackCodes(DType dtype, const std::byte* in, uint64_t elements, const CodeGroups& out);

}  // namespace baton::weights
