#include "tests/fakes/tensor_source.h"

#include <array>
#include <cmath>
#include <cstring>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/model/catalogue.h"

namespace baton::fakes {
namespace {

constexpr int kQ8Block = 32;

bool IsNorm(const std::string& name) { return name.find("norm") != std::string::npos; }

// Value of a random byte: uniform, standard deviation near 1 / sqrt(cols); 1 +- 1/8 for norms.
std::array<float, 256> ValueTable(const std::string& name, uint64_t cols) {
  const float step = std::exp2(std::round(std::log2(1.0f / (74.0f * std::sqrt(static_cast<float>(cols))))));
  std::array<float, 256> table;
  for (int i = 0; i < 256; ++i) {
    const int value = std::max(i - 128, -127);
    table[i] = IsNorm(name) ? 1.0f + static_cast<float>(value / 8) * 0x1p-7f : static_cast<float>(value) * step;
  }
  return table;
}

class Random {
 public:
  Random(const std::string& name, uint64_t seed) : state_(HashText(name, {seed, 1}).low | 1) {}
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
void Fill(const std::string& name, uint64_t seed, const std::array<T, 256>& table, T* out, uint64_t elements) {
  Random random(name, seed);
  uint64_t i = 0;
  for (; i + 8 <= elements; i += 8) {
    uint64_t bits = random.Next();
    for (int j = 0; j < 8; ++j, bits >>= 8) out[i + j] = table[bits & 255];
  }
  for (uint64_t bits = random.Next(); i < elements; ++i, bits >>= 8) out[i] = table[bits & 255];
}

std::vector<std::byte> Make(const std::string& name, DType dtype, uint64_t elements, uint64_t cols, uint64_t seed) {
  if (dtype != DType::kBF16) return Encode(dtype, RandomValues(name, elements, cols, seed));
  std::array<uint16_t, 256> table;
  const std::array<float, 256> values = ValueTable(name, cols);
  for (int i = 0; i < 256; ++i) table[i] = BF16FromF32(values[i]);
  std::vector<std::byte> out(elements * 2);
  Fill(name, seed, table, reinterpret_cast<uint16_t*>(out.data()), elements);
  return out;
}

void EncodeQ8_0(const float* values, std::byte* out) {
  // The finest power of two of which all 32 values are multiples within 8 bits.
  float largest = 0;
  for (int i = 0; i < kQ8Block; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float scale = largest == 0 ? 0.0f : std::exp2(std::ceil(std::log2(largest / 127.0f)));
  const uint16_t stored = F16FromF32(scale);
  std::memcpy(out, &stored, sizeof(stored));
  for (int i = 0; i < kQ8Block; ++i) {
    const float quotient = scale == 0 ? 0.0f : values[i] / scale;
    BATON_CHECK(quotient == std::round(quotient) && F32FromF16(stored) == scale);
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(quotient));
  }
}

}  // namespace

uint64_t TensorSource::elements() const {
  uint64_t count = 1;
  for (const uint64_t dimension : shape) count *= dimension;
  return count;
}

std::vector<std::byte> Encode(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> out(BytesOf(dtype, values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF32) {
      std::memcpy(out.data() + 4 * i, &values[i], 4);
    } else if (dtype == DType::kF16 || dtype == DType::kBF16) {
      const uint16_t bits = dtype == DType::kF16 ? F16FromF32(values[i]) : BF16FromF32(values[i]);
      std::memcpy(out.data() + 2 * i, &bits, 2);
    } else {
      BATON_CHECK(dtype == DType::kQ8_0 && values.size() % kQ8Block == 0);
      if (i % kQ8Block == 0) EncodeQ8_0(values.data() + i, out.data() + i / kQ8Block * 34);
    }
  }
  return out;
}

std::vector<float> RandomValues(const std::string& name, uint64_t elements, uint64_t cols, uint64_t seed) {
  std::vector<float> out(elements);
  Fill(name, seed, ValueTable(name, cols), out.data(), elements);
  return out;
}

std::vector<TensorSource> RandomTensors(const model::ModelConfig& config, uint64_t seed, DType dtype,
                                        DType vector_dtype) {
  std::vector<TensorSource> out;
  const auto add = [&](std::string_view name, std::vector<uint64_t> shape, DType format) {
    TensorSource tensor{.name = std::string(name), .dtype = format, .shape = std::move(shape)};
    // Biases get a spread that matters beside the products they are added to.
    const uint64_t cols = tensor.shape.size() == 1 ? 16 : tensor.shape.back();
    tensor.make = [name = tensor.name, format, elements = tensor.elements(), cols, seed] {
      return Make(name, format, elements, cols, seed);
    };
    out.push_back(std::move(tensor));
  };
  const model::TensorNames& names = model::NamesOf(model::FileFormat::kSafetensors);
  const uint64_t hidden = config.hidden, q = config.q_rows(), kv = config.kv_rows(), inner = config.intermediate;
  add(names.embedding, {config.vocab, hidden}, dtype);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const auto matrix = [&](std::string_view name, uint64_t rows, uint64_t cols) {
      add(names.Layer(layer, name), {rows, cols}, dtype);
    };
    const auto vector = [&](std::string_view name, uint64_t size) {
      add(names.Layer(layer, name), {size}, vector_dtype);
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
  add(names.final_norm, {hidden}, vector_dtype);
  if (!config.tied_head) add(names.lm_head, {config.vocab, hidden}, dtype);
  return out;
}

}  // namespace baton::fakes
