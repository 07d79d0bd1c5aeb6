// Plain reference, the CPU's kernel, the CUDA source on the host, and CUDA on a device: one body for each operation.

#include <numeric>
#include <string>

#include "kernels/cuda/embedding.h"
#include "kernels/cuda/rms_norm.h"
#include "kernels/cuda/rope_kv.h"
#include "kernels/cuda/swiglu.h"
#include "kernels/kv_store.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/kernels/cuda/numbers.h"
#include "tests/kernels/cuda/thread_orders.h"
#include "tests/kernels/reference.h"

namespace baton {
namespace {

class Elementwise : public CudaTest {
 protected:
  std::byte* Upload(DType dtype, const std::vector<float>& values) { return ToDevice(Encode(dtype, values)); }
  std::vector<float> Download(DType dtype, const std::byte* from, size_t count) {
    return Decode(dtype, ToHost(from, count * BlockOf(dtype).bytes).data(), count);
  }
};

TEST_F(Elementwise, EmbeddingTakesTheRowsOfItsTokens) {
  constexpr int64_t kVocab = 11, kWidth = 300;
  const std::vector<TokenId> tokens = {10, 0, 3, 3};
  for (const DType dtype : kActivationFormats) {
    const std::vector<float> table = Rounded(dtype, RandomFloats(kVocab * kWidth, 1));
    float* hidden = NewDevice<float>(tokens.size() * kWidth);
    Expect(cuda::Embedding(dtype, Upload(dtype, table), ToDevice(tokens), tokens.size(), kWidth, hidden, stream()));
    const std::vector<float> actual = ToHost(hidden, tokens.size() * kWidth);
    for (size_t i = 0; i < tokens.size(); ++i) {
      ExpectSameBits(actual.data() + i * kWidth, table.data() + tokens[i] * kWidth, kWidth);
    }
  }
}

TEST_F(Elementwise, RmsNormAddsDeltaAndBiasToTheResidualStreamFirst) {
  constexpr int64_t kRows = 3;
  constexpr float kEps = 1e-6f;
  for (const int64_t width : {64, 100, 896, 5004}) {
    for (const DType dtype : kActivationFormats) {
      for (const int added : {0, 1, 2}) {  // nothing, delta, delta and bias
        SCOPED_TRACE(std::to_string(width) + " " + std::to_string(added));
        const std::vector<float> before = RandomFloats(kRows * width, 1, 4.0f), weight = RandomFloats(width, 2),
                                 delta = Rounded(dtype, RandomFloats(kRows * width, 3)), bias = RandomFloats(width, 4);
        std::vector<float> sum = before, expected, by_cpu(kRows * width);
        for (int64_t i = 0; i < kRows * width && added > 0; ++i) {
          sum[i] += delta[i];
          if (added == 2) sum[i] += bias[i % width];
        }
        for (int64_t row = 0; row < kRows; ++row) {
          const std::vector<float> one = reference::RmsNorm(sum.data() + row * width, weight, kEps);
          expected.insert(expected.end(), one.begin(), one.end());
        }
        cpu::RmsNorm(sum.data(), width, weight.data(), kEps, kRows, width, by_cpu.data(), width);
        ForEveryOrder([&] {
          float* hidden = ToDevice(before);
          std::byte* y = NewDevice<std::byte>(kRows * width * BlockOf(dtype).bytes);
          Expect(cuda::AddRmsNorm(dtype, hidden, added > 0 ? Upload(dtype, delta) : nullptr,
                                  added == 2 ? ToDevice(bias) : nullptr, ToDevice(weight), kEps, kRows, width, y,
                                  stream()));
          const std::vector<float> actual = Download(dtype, y, kRows * width),
                                   stream_after = ToHost(hidden, kRows * width);
          ExpectClose(dtype, actual, expected);
          ExpectClose(dtype, actual, by_cpu);
          ExpectSameBits(stream_after.data(), sum.data(), sum.size());
        });
      }
    }
  }
}

TEST_F(Elementwise, PartsOfADeltaAreAddedInTheirOrder) {
  constexpr int64_t kRows = 3, kWidth = 100;
  constexpr float kEps = 1e-6f;
  for (const DType dtype : kActivationFormats) {
    for (const int parts : {1, 2, 4}) {
      const std::vector<float> before = RandomFloats(kRows * kWidth, 1, 4.0f), weight = RandomFloats(kWidth, 2),
                               partials = RandomFloats(parts * kRows * kWidth, 3), bias = RandomFloats(kWidth, 4);
      std::vector<float> sum = before, expected;
      for (int64_t i = 0; i < kRows * kWidth; ++i) {
        float added = partials[i];
        for (int part = 1; part < parts; ++part) added += partials[part * kRows * kWidth + i];
        sum[i] += added;
        sum[i] += bias[i % kWidth];
      }
      for (int64_t row = 0; row < kRows; ++row) {
        const std::vector<float> one = reference::RmsNorm(sum.data() + row * kWidth, weight, kEps);
        expected.insert(expected.end(), one.begin(), one.end());
      }
      ForEveryOrder([&] {
        float* hidden = ToDevice(before);
        std::byte* y = NewDevice<std::byte>(kRows * kWidth * BlockOf(dtype).bytes);
        Expect(cuda::AddPartialsRmsNorm(dtype, hidden, ToDevice(partials), parts, ToDevice(bias), ToDevice(weight),
                                        kEps, kRows, kWidth, y, stream()));
        ExpectClose(dtype, Download(dtype, y, kRows * kWidth), expected);
        const std::vector<float> stream_after = ToHost(hidden, kRows * kWidth);
        ExpectSameBits(stream_after.data(), sum.data(), sum.size());
      });
    }
  }
}

TEST_F(Elementwise, WidthsOfNoWholePacksAreRefused) {
  EXPECT_EQ(cuda::AddRmsNorm(DType::kF32, nullptr, nullptr, nullptr, nullptr, 1e-6f, 1, 102, nullptr, stream()),
            cuda::Error::kInvalidValue);
  EXPECT_EQ(cuda::Embedding(DType::kF32, nullptr, nullptr, 1, 102, nullptr, stream()), cuda::Error::kInvalidValue);
}

TEST_F(Elementwise, ARowsNormDoesNotDependOnTheNumberOfRows) {
  constexpr int64_t kWidth = 500;
  const std::vector<float> x = RandomFloats(8 * kWidth, 1), weight = RandomFloats(kWidth, 2);
  float *all = NewDevice<float>(8 * kWidth), *one = NewDevice<float>(kWidth);
  Expect(
      cuda::AddRmsNorm(DType::kF32, ToDevice(x), nullptr, nullptr, ToDevice(weight), 1e-5f, 8, kWidth, all, stream()));
  Expect(cuda::AddRmsNorm(DType::kF32, ToDevice(std::vector<float>(x.end() - kWidth, x.end())), nullptr, nullptr,
                          ToDevice(weight), 1e-5f, 1, kWidth, one, stream()));
  const std::vector<float> of_all = ToHost(all, 8 * kWidth), of_one = ToHost(one, kWidth);
  ExpectSameBits(of_one.data(), of_all.data() + 7 * kWidth, kWidth);
}

TEST_F(Elementwise, SwiGluIsTheCpus) {
  constexpr int64_t kRows = 2;
  for (const int64_t width : {8, 200, 4864}) {
    for (const DType dtype : kActivationFormats) {
      const std::vector<float> gate_up = Rounded(dtype, RandomFloats(kRows * 2 * width, 1, 20.0f));
      std::vector<float> expected, by_cpu(kRows * width);
      for (int64_t i = 0; i < kRows * width; ++i) {
        const float* gate = gate_up.data() + i / width * 2 * width + i % width;
        expected.push_back(reference::SwiGlu(gate[0], gate[width]));
      }
      for (int64_t row = 0; row < kRows; ++row) {
        const float* gate = gate_up.data() + row * 2 * width;
        cpu::SwiGlu(gate, gate + width, width, by_cpu.data() + row * width);
      }
      std::byte* y = NewDevice<std::byte>(kRows * width * BlockOf(dtype).bytes);
      Expect(cuda::SwiGlu(dtype, Upload(dtype, gate_up), kRows, width, y, stream()));
      const std::vector<float> actual = Download(dtype, y, kRows * width);
      ExpectClose(dtype, actual, expected, 1, 1e-3f);
      ExpectClose(dtype, actual, by_cpu, 1, 1e-3f);
    }
  }
  EXPECT_EQ(cuda::SwiGlu(DType::kF32, nullptr, 1, 12, nullptr, stream()), cuda::Error::kInvalidValue);
}

struct HeadShape {
  int32_t heads, kv_heads, head_dim, block_size;
  bool bias, norm;
};

TEST_F(Elementwise, RopeWritesRotatedKeysAndValuesToTheirSlots) {
  constexpr int64_t kLength = 40, kPool = 5, kRows = 4;
  // Rows of two sequences whose blocks lie anywhere, and one of padding.
  const std::vector<int32_t> positions = {17, 18, -1, 3}, sequences = {1, 1, 0, 0};
  for (const auto& shape : {HeadShape{14, 2, 64, 16, true, false}, HeadShape{4, 4, 128, 32, false, true},
                            HeadShape{3, 1, 80, 16, true, true}, HeadShape{2, 1, 256, 16, false, true}}) {
    const int64_t pairs = shape.head_dim / 2, all_heads = shape.heads + 2 * shape.kv_heads,
                  width = all_heads * shape.head_dim, head_stride = shape.block_size * shape.head_dim,
                  block_stride = 2 * shape.kv_heads * head_stride;
    const std::vector<BlockId> tables = {4, 1, 0, 2, 3, 0};
    const std::vector<float> bias = RandomFloats(width, 1), q_norm = RandomFloats(shape.head_dim, 2),
                             k_norm = RandomFloats(shape.head_dim, 3);
    std::vector<float> cosine(kLength * pairs), sine(kLength * pairs), frequencies(pairs);
    for (int64_t i = 0; i < pairs; ++i) frequencies[i] = std::pow(1e4f, -static_cast<float>(i) / pairs);
    for (int64_t p = 0; p < kLength; ++p) {
      cpu::RopeAngles(p, frequencies.data(), pairs, 1, cosine.data() + p * pairs, sine.data() + p * pairs);
    }
    for (const DType dtype : kActivationFormats) {
      SCOPED_TRACE(std::to_string(shape.head_dim) + " " + std::string(DTypeName(dtype)));
      const size_t size = BlockOf(dtype).bytes;
      const std::vector<float> qkv = Rounded(dtype, RandomFloats(kRows * width, 4, 2.0f));
      std::vector<float> expected_q = qkv, expected_pool(kPool * block_stride, 7.0f);
      for (int64_t row = 0; row < kRows; ++row) {
        if (positions[row] < 0) continue;
        std::vector<float> x(qkv.begin() + row * width, qkv.begin() + (row + 1) * width);
        for (int64_t i = 0; i < width && shape.bias; ++i) x[i] += bias[i];
        float *k = x.data() + shape.heads * shape.head_dim, *v = k + shape.kv_heads * shape.head_dim;
        if (shape.norm) {
          cpu::RmsNorm(x.data(), shape.head_dim, q_norm.data(), 1e-6f, shape.heads, shape.head_dim, x.data(),
                       shape.head_dim);
          cpu::RmsNorm(k, shape.head_dim, k_norm.data(), 1e-6f, shape.kv_heads, shape.head_dim, k, shape.head_dim);
        }
        cpu::Rope(cosine.data() + positions[row] * pairs, sine.data() + positions[row] * pairs,
                  shape.heads + shape.kv_heads, shape.head_dim, x.data());
        std::copy_n(x.data(), shape.heads * shape.head_dim, expected_q.data() + row * width);
        const int64_t block = tables[sequences[row] * 3 + positions[row] / shape.block_size];
        // Slot by slot, keys as well.
        const cpu::KvSlot slot{DType::kF32, shape.head_dim, shape.block_size, head_stride * 4,
                               positions[row] % shape.block_size};
        for (int kv = 0; kv < 2; ++kv) {
          cpu::StoreValues(slot, kv == 0 ? k : v, shape.kv_heads,
                           expected_pool.data() + block * block_stride + kv * shape.kv_heads * head_stride);
        }
      }
      ForEveryOrder([&] {
        std::byte* pool = Upload(dtype, std::vector<float>(kPool * block_stride, 7.0f));
        const cuda::PagedKv kv{dtype,          pool,           pool + shape.kv_heads * head_stride * size,
                               shape.kv_heads, shape.head_dim, shape.block_size,
                               block_stride};
        const cuda::PagedRows rows{ToDevice(positions), ToDevice(sequences), ToDevice(tables), 3};
        const cuda::RopeKvWeights weights{shape.bias ? ToDevice(bias) : nullptr,
                                          shape.norm ? ToDevice(q_norm) : nullptr,
                                          shape.norm ? ToDevice(k_norm) : nullptr,
                                          1e-6f,
                                          ToDevice(cosine),
                                          ToDevice(sine)};
        std::byte* data = Upload(dtype, qkv);
        Expect(cuda::RopeAndStoreKv(weights, kv, rows, kRows, shape.heads, data, stream()));
        std::vector<float> actual_q = Download(dtype, data, kRows * width);
        ExpectClose(dtype, Download(dtype, pool, kPool * block_stride), expected_pool);
        ExpectClose(dtype, actual_q, expected_q);
      });
    }
  }
}

}  // namespace
}  // namespace baton
