#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/random_floats.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/targets.h"

namespace baton {
namespace {

// A pool of one layer whose blocks are handed out in random order, and whose memory holds NaN where nothing was stored.
class PagedSequence {
 public:
  PagedSequence(DType dtype, int64_t kv_heads, int64_t head_dim, int64_t block_size, int64_t length, uint32_t seed)
      : kv_heads_(kv_heads), head_dim_(head_dim), block_size_(block_size), length_(length) {
    const int64_t blocks = (length + block_size - 1) / block_size;
    blocks_.resize(blocks);
    std::iota(blocks_.begin(), blocks_.end(), BlockId{0});
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(seed));
    memory_.assign(blocks * block_stride() * BlockOf(dtype).bytes, std::byte{0xff});  // NaN in all three formats
    for (int kv = 0; kv < 2; ++kv) {
      rows_[kv].resize(kv_heads);
      for (int64_t head = 0; head < kv_heads; ++head) {
        for (int64_t p = 0; p < length; ++p) {
          rows_[kv][head].push_back(Rounded(dtype, RandomFloats(head_dim, seed + kv + 2 * (head + kv_heads * p))));
          for (int64_t e = 0; e < head_dim; ++e) {
            Store(dtype, ElementOf(kv, head, p) + e, rows_[kv][head][p][e]);
          }
        }
      }
    }
  }

  int64_t block_stride() const { return 2 * kv_heads_ * block_size_ * head_dim_; }
  const void* keys() const { return memory_.data(); }
  const void* values(DType dtype) const { return memory_.data() + block_stride() / 2 * BlockOf(dtype).bytes; }
  const std::vector<BlockId>& blocks() const { return blocks_; }
  const std::vector<std::vector<float>>& rows(int kv, int64_t head) const { return rows_[kv][head]; }

 private:
  int64_t ElementOf(int kv, int64_t head, int64_t p) const {
    return blocks_[p / block_size_] * block_stride() +
           ((kv * kv_heads_ + head) * block_size_ + p % block_size_) * head_dim_;
  }
  void Store(DType dtype, int64_t element, float value) {
    if (dtype == DType::kF32) {
      reinterpret_cast<float*>(memory_.data())[element] = value;
    } else {
      reinterpret_cast<uint16_t*>(memory_.data())[element] =
          dtype == DType::kF16 ? F16FromF32(value) : BF16FromF32(value);
    }
  }

  const int64_t kv_heads_, head_dim_, block_size_, length_;
  std::vector<BlockId> blocks_;
  std::vector<std::byte> memory_;
  std::vector<std::vector<std::vector<float>>> rows_[2];  // [k|v][head][position]
};

struct Shape {
  int64_t heads, kv_heads, head_dim, block_size, window;
};

std::vector<float> RunAttention(const Shape& shape, DType dtype, const PagedSequence& pool_memory,
                                const std::vector<float>& queries, int64_t position, int64_t first, int64_t count,
                                ThreadPool& pool) {
  const cpu::AttentionShape attention{dtype,
                                      shape.heads,
                                      shape.kv_heads,
                                      shape.head_dim,
                                      shape.block_size,
                                      pool_memory.block_stride(),
                                      1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
                                      shape.window};
  const int64_t width = shape.heads * shape.head_dim;
  const cpu::AttentionSequence sequence{0, count, position + first, pool_memory.blocks()};
  const cpu::AttentionWorkspace workspace(pool.threads());
  std::vector<float> out(count * width);
  cpu::Attention(attention, {&sequence, 1}, pool_memory.keys(), pool_memory.values(dtype),
                 queries.data() + first * width, width, out.data(), width, workspace, pool);
  return out;
}

std::vector<float> Expected(const Shape& shape, const PagedSequence& memory, const std::vector<float>& queries,
                            int64_t position, int64_t count) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      const int64_t end = position + i + 1;
      const int64_t begin = shape.window == 0 ? 0 : std::max<int64_t>(0, end - shape.window);
      const int64_t kv_head = head / (shape.heads / shape.kv_heads);
      const std::vector<float> row = reference::Attention(queries.data() + (i * shape.heads + head) * shape.head_dim,
                                                          memory.rows(0, kv_head), memory.rows(1, kv_head), begin, end,
                                                          1.0f / std::sqrt(static_cast<float>(shape.head_dim)));
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return out;
}

TEST(Attention, EqualsTheReferenceBitForBitOnEveryTargetAndFormat) {
  ThreadPool pool(2);
  struct Case {
    Shape shape;
    int64_t position, queries;
  };
  for (const auto& [shape, position, queries] :
       {Case{{14, 2, 64, 16, 0}, 0, 70}, Case{{14, 2, 64, 16, 0}, 150, 1}, Case{{4, 4, 32, 32, 0}, 60, 9},
        Case{{3, 1, 128, 16, 20}, 90, 50}, Case{{6, 3, 10, 16, 0}, 3, 66}, Case{{2, 1, 80, 8, 64}, 128, 2},
        Case{{5, 5, 256, 16, 7}, 0, 12}}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      SCOPED_TRACE(std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " heads of " +
                   std::to_string(shape.head_dim) + " " + std::string(DTypeName(dtype)));
      const PagedSequence memory(dtype, shape.kv_heads, shape.head_dim, shape.block_size, position + queries, 1);
      const std::vector<float> q = RandomFloats(queries * shape.heads * shape.head_dim, 2, 3.0f);
      const std::vector<float> expected = Expected(shape, memory, q, position, queries);
      ForEveryTarget([&] {
        const std::vector<float> out = RunAttention(shape, dtype, memory, q, position, 0, queries, pool);
        ExpectSameBits(out.data(), expected.data(), expected.size());
      });
    }
  }
}

TEST(Attention, AChunkOfAnyLengthEqualsTheWholePromptForAnyThreadCount) {
  constexpr int64_t kLength = 130;
  for (const int64_t window : {0, 33}) {
    const Shape shape{6, 2, 32, 16, window};
    const PagedSequence memory(DType::kBF16, shape.kv_heads, shape.head_dim, shape.block_size, kLength, 3);
    const int64_t width = shape.heads * shape.head_dim;
    const std::vector<float> q = RandomFloats(kLength * width, 4, 3.0f);
    ThreadPool one(1);
    const std::vector<float> whole = RunAttention(shape, DType::kBF16, memory, q, 0, 0, kLength, one);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      for (const int64_t chunk : {1, 7, 64, 100}) {
        for (int64_t first = 0; first < kLength; first += chunk) {
          const int64_t count = std::min(chunk, kLength - first);
          const std::vector<float> out = RunAttention(shape, DType::kBF16, memory, q, 0, first, count, pool);
          ExpectSameBits(out.data(), whole.data() + first * width, out.size());
        }
      }
    }
  }
}

TEST(Attention, IsCloseToDoublePrecision) {
  constexpr int64_t kLength = 150;
  const Shape shape{1, 1, 64, 16, 0};
  const PagedSequence memory(DType::kF32, 1, 64, 16, kLength, 5);
  const std::vector<float> q = RandomFloats(kLength * 64, 6, 4.0f);
  ThreadPool pool(1);
  const std::vector<float> out = RunAttention(shape, DType::kF32, memory, q, 0, 0, kLength, pool);
  for (int64_t i = 0; i < kLength; ++i) {
    std::vector<double> sum(64, 0.0);
    double total = 0;
    for (int64_t p = 0; p <= i; ++p) {
      double score = 0;
      for (int64_t e = 0; e < 64; ++e) score += double{q[i * 64 + e]} * memory.rows(0, 0)[p][e];
      const double weight = std::exp(score / 8);
      total += weight;
      for (int64_t e = 0; e < 64; ++e) sum[e] += weight * memory.rows(1, 0)[p][e];
    }
    for (int64_t e = 0; e < 64; ++e) EXPECT_NEAR(out[i * 64 + e], sum[e] / total, 2e-6);
  }
}

}  // namespace
}  // namespace baton
