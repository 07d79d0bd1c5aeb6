#pragma once

// Rotary position embedding: the angle of pair i (elements i and i + head_dim / 2) at position p is
// p * inverse_frequencies[i]; cosine and sine are both multiplied by attention_scale, at every position.

#include <vector>

#include "common/model/model_config.h"

namespace baton::model {

struct RopeTable {
  std::vector<float> inverse_frequencies;  // [head_dim / 2], computed in f64
  float attention_scale = 1.0f;
};

// `config` has passed the parser's checks.
RopeTable MakeRopeTable(const RopeConfig& config, uint32_t head_dim);

}  // namespace baton::model
