#include "common/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace baton::model {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// Llama 3.1: long wavelengths are divided by `factor`, short ones kept, those between blended.
double Llama3Frequency(const RopeConfig& config, double frequency) {
  const double turns = config.original_max_position_embeddings * frequency / kTwoPi;  // within the original length
  if (turns > config.high_freq_factor) return frequency;
  if (turns < config.low_freq_factor) return frequency / config.factor;
  const double smooth = (turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
  return (1 - smooth) * frequency / config.factor + smooth * frequency;
}

// YaRN (Peng 2023, section 3.2): the pair index at which a wavelength makes `turns` within the original length.
double YarnBorder(const RopeConfig& config, double head_dim, double turns) {
  return head_dim * std::log(config.original_max_position_embeddings / (turns * kTwoPi)) / (2 * std::log(config.theta));
}

double YarnScale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double YarnAttentionScale(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  if (config.mscale.value_or(0) != 0 && config.mscale_all_dim.value_or(0) != 0) {
    return YarnScale(config.factor, *config.mscale) / YarnScale(config.factor, *config.mscale_all_dim);
  }
  return YarnScale(config.factor, 1);
}

}  // namespace

std::string_view RopeKindName(RopeKind kind) {
  switch (kind) {
    case RopeKind::kPlain:
      return "plain";
    case RopeKind::kLinear:
      return "linear";
    case RopeKind::kLlama3:
      return "llama3";
    case RopeKind::kYarn:
      return "yarn";
  }
  return "unknown";
}

RopeTable MakeRopeTable(const RopeConfig& config, uint32_t head_dim) {
  RopeTable table;
  double low = 0, high = 0;
  if (config.kind == RopeKind::kYarn) {
    low = YarnBorder(config, head_dim, config.beta_fast);
    high = YarnBorder(config, head_dim, config.beta_slow);
    if (config.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, head_dim - 1.0);
    if (low == high) high += 0.001;
    table.attention_scale = static_cast<float>(YarnAttentionScale(config));
  }
  for (uint32_t pair = 0; pair < head_dim / 2; ++pair) {
    double frequency = std::pow(config.theta, -2.0 * pair / head_dim);
    if (!config.frequency_divisors.empty()) frequency /= config.frequency_divisors[pair];
    switch (config.kind) {
      case RopeKind::kPlain:
        break;
      case RopeKind::kLinear:
        frequency /= config.factor;
        break;
      case RopeKind::kLlama3:
        frequency = Llama3Frequency(config, frequency);
        break;
      case RopeKind::kYarn: {
        const double interpolated = std::clamp((pair - low) / (high - low), 0.0, 1.0);
        frequency = frequency / config.factor * interpolated + frequency * (1 - interpolated);
        break;
      }
    }
    table.inverse_frequencies.push_back(static_cast<float>(frequency));
  }
  return table;
}

}  // namespace baton::model
