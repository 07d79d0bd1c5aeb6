#include "common/model/random_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/hash.h"
#include "common/model/catalogue.h"
#include "common/weights/encode.h"

namespace baton::model {
namespace {

using weights::TensorSource;

bool IsNorm(std::string_view name) { return name.find("norm") != std::string_view::npos; }

// Value of a random byte: uniform, standard deviation near 1 / sqrt(inputs); 1 +- 1/8 for norms.
std::array<float, 256> ValueTable(std::string_view name, uint64_t inputs) {
  const float step = std::exp2(std::round(std::log2(1.0f / (74.0f * std::sqrt(static_cast<float>(inputs))))));
  std::array<float, 256> table;
  for (int i = 0; i < 256; ++i) {
    const int value = std::max(i - 128, -127);
    table[i] = IsNorm(name) ? 1.0f + static_cast<float>(value / 8) * 0x1p-7f : static_cast<float>(value) * step;
  }
  return table;
}

// Any row can be made without those before it.
class RowRandom {
 public:
  RowRandom(uint64_t seed, uint64_t row) {  // splitmix64 (Steele et al. 2014)
    uint64_t state = seed + (row + 1) * 0x9e3779b97f4a7c15ull;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
    state_ = (state ^ (state >> 31)) | 1;
  }
  uint64_t Next() {  // xorshift64* (Vigna 2016)
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dull;
  }

 private:
  uint64_t state_;
};

template <typename T>
void FillRow(RowRandom random, const std::array<T, 256>& table, T* out, uint64_t cols) {
  uint64_t i = 0;
  for (; i + 8 <= cols; i += 8) {
    uint64_t bits = random.Next();
    for (int j = 0; j < 8; ++j, bits >>= 8) out[i + j] = table[bits & 255];
  }
  for (uint64_t bits = random.Next(); i < cols; ++i, bits >>= 8) out[i] = table[bits & 255];
}

// Formats of single values: the table holds them encoded.
template <typename T>
auto FillValues(uint64_t seed, DType dtype, const std::array<float, 256>& values, uint64_t cols) {
  std::array<T, 256> table;
  weights::Encode(dtype, values.data(), values.size(), reinterpret_cast<std::byte*>(table.data()));
  return [seed, table, cols](uint64_t first, std::span<std::byte> out) {
    for (T* row = reinterpret_cast<T*>(out.data()); row < reinterpret_cast<T*>(out.data() + out.size()); row += cols) {
      FillRow(RowRandom(seed, first++), table, row, cols);
    }
  };
}

auto FillBlocks(uint64_t seed, DType dtype, const std::array<float, 256>& values, uint64_t cols) {
  return [seed, dtype, values, cols](uint64_t first, std::span<std::byte> out) {
    std::vector<float> row(cols);
    const uint64_t row_bytes = BytesOf(dtype, cols);
    for (uint64_t offset = 0; offset < out.size(); offset += row_bytes) {
      FillRow(RowRandom(seed, first++), values, row.data(), cols);
      weights::Encode(dtype, row.data(), cols, out.data() + offset);
    }
  };
}

TensorSource RandomTensor(std::string_view name, std::vector<uint64_t> shape, DType dtype, uint64_t seed) {
  TensorSource tensor{.name = std::string(name), .dtype = dtype, .shape = std::move(shape)};
  // Biases get a spread that matters beside the products they are added to.
  const std::array<float, 256> values = ValueTable(name, tensor.shape.size() == 1 ? 16 : tensor.cols());
  const uint64_t tensor_seed = HashText(name, {seed, 1}).low;
  switch (dtype) {
    case DType::kF32:
      tensor.fill = FillValues<uint32_t>(tensor_seed, dtype, values, tensor.cols());
      break;
    case DType::kF16:
    case DType::kBF16:
      tensor.fill = FillValues<uint16_t>(tensor_seed, dtype, values, tensor.cols());
      break;
    default:
      tensor.fill = FillBlocks(tensor_seed, dtype, values, tensor.cols());
  }
  return tensor;
}

}  // namespace

std::vector<TensorSource> RandomTensors(const ModelConfig& config, uint64_t seed, const RandomFormats& formats) {
  std::vector<TensorSource> out;
  const auto add = [&](std::string_view name, std::vector<uint64_t> shape, DType dtype) {
    out.push_back(RandomTensor(name, std::move(shape), dtype, seed));
  };
  const TensorNames& names = NamesOf(FileFormat::kSafetensors);
  const uint64_t hidden = config.hidden, q = config.q_rows(), kv = config.kv_rows(), inner = config.intermediate;
  add(names.embedding, {config.vocab, hidden}, formats.embedding);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const auto matrix = [&](std::string_view name, uint64_t rows, uint64_t cols) {
      add(names.Layer(layer, name), {rows, cols}, formats.matrices);
    };
    const auto vector = [&](std::string_view name, uint64_t size) {
      add(names.Layer(layer, name), {size}, formats.vectors);
    };
    vector(names.attention_norm, hidden);
    matrix(names.q, q, hidden);
    matrix(names.k, kv, hidden);
    matrix(names.v, kv, hidden);
    matrix(names.o, hidden, q);
    if (config.qkv_bias) {
      vector(names.q_bias, q);
      vector(names.k_bias, kv);
      vector(names.v_bias, kv);
    }
    if (config.o_bias) vector(names.o_bias, hidden);
    if (config.qk_norm) {
      vector(names.q_norm, config.head_dim);
      vector(names.k_norm, config.head_dim);
    }
    vector(names.ffn_norm, hidden);
    matrix(names.gate, inner, hidden);
    matrix(names.up, inner, hidden);
    matrix(names.down, hidden, inner);
  }
  add(names.final_norm, {hidden}, formats.vectors);
  if (!config.tied_head) add(names.lm_head, {config.vocab, hidden}, formats.embedding);
  return out;
}

}  // namespace baton::model
