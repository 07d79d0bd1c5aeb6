#pragma once

// Rotary position embedding, rotate-half form: element i pairs with element i + head_dim / 2.

#include <cstdint>

namespace baton::cpu {

// cosine[i], sine[i] = attention_scale * cos, sin of the f32 product position * inverse_frequencies[i], as transformers
// forms the angle; evaluated in f64 by our own series, so that no math library's version matters. [pairs] each.
void RopeAngles(int64_t position, const float* inverse_frequencies, int64_t pairs, float attention_scale, float* cosine,
                float* sine);

// Rotates `heads` heads [heads, head_dim] of one token in place; cosine, sine: [head_dim / 2].
void Rope(const float* cosine, const float* sine, int64_t heads, int64_t head_dim, float* x);

}  // namespace baton::cpu
