#pragma once

// Filters over weights, and the draw. common/base/weight_mass.h says what weights and masses are.

#include <cstdint>
#include <span>

#include "common/base/ids.h"
#include "common/base/weight_mass.h"

namespace baton {

// Turns NaN and infinities into -inf ("impossible") in place; returns the largest logit, -inf when none is possible.
float MaskNonFinite(std::span<float> logits);

// Each keeps at least one id. `weights` are in [0, 1] with a 1 among them.
KeptPrefix KeepTopK(std::span<const float> weights, KeptPrefix kept, uint32_t k);
// The shortest prefix that holds `p` of the mass in `kept`.
KeptPrefix KeepTopP(std::span<const float> weights, KeptPrefix kept, float p);
// The shortest prefix that holds `goal`; `kept` when all of it holds less.
KeptPrefix KeepMass(std::span<const float> weights, KeptPrefix kept, uint64_t goal);

// The id at which `random` / 2^64 of the kept mass, added in the order of the ids, is passed.
TokenId DrawToken(std::span<const float> weights, KeptPrefix kept, uint64_t random);

}  // namespace baton
