#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/kv/layout.h"
#include "kernels/kv_store.h"
#include "tests/kernels/random_floats.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/targets.h"

namespace baton {
namespace {

// A pool of one layer whose blocks are handed out in random order, and whose memory holds NaN where nothing was stored.
class PagedSequence {
 public:
  PagedSequence(DType dtype, int64_t kv_heads, int64_t head_dim, int64_t block_size, int64_t length, uint32_t seed)
      : layout_{.dtype = dtype,
                .layers = 1,
                .kv_heads = static_cast<uint32_t>(kv_heads),
                .head_dim = static_cast<uint32_t>(head_dim),
                .block_size = static_cast<uint32_t>(block_size)},
        blocks_((length + block_size - 1) / block_size) {
    std::iota(blocks_.begin(), blocks_.end(), BlockId{0});
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(seed));
    memory_.assign(blocks_.size() * layout_.BytesPerBlock(), std::byte{0xff});  // NaN in all float formats
    for (int kv = 0; kv < 2; ++kv) {
      kv_[kv].resize(kv_heads);
      for (int64_t p = 0; p < length; ++p) {
        const std::vector<float> token = RandomFloats(kv_heads * head_dim, seed + kv + 2 * p);
        const cpu::KvSlot slot{dtype, head_dim, block_size, static_cast<int64_t>(layout_.HeadBytes()), p % block_size};
        std::byte* piece = memory_.data() + layout_.HeadOffset(blocks_[p / block_size], 0, kv, 0);
        kv == 0 ? cpu::StoreKeys(slot, token.data(), kv_heads, piece)
                : cpu::StoreValues(slot, token.data(), kv_heads, piece);
        for (int64_t head = 0; head < kv_heads; ++head) Read(kv, head, p);
      }
    }
  }

  const KvLayout& layout() const { return layout_; }
  const void* keys() const { return memory_.data(); }
  const void* values() const { return memory_.data() + layout_.HeadOffset(0, 0, 1, 0); }
  const std::vector<BlockId>& blocks() const { return blocks_; }
  const reference::KvRows& rows(int kv, int64_t head) const { return kv_[kv][head]; }

 private:
  // What the pool holds of a position, as the layout says.
  void Read(int kv, int64_t head, int64_t p) {
    const uint32_t slot = p % layout_.block_size;
    const std::byte* piece =
        memory_.data() + layout_.HeadOffset(blocks_[p / layout_.block_size], 0, kv, static_cast<uint32_t>(head));
    std::vector<float> row;
    for (uint32_t e = 0; e < layout_.head_dim; ++e) {
      const uint32_t index = kv == 0 ? e * layout_.block_size + slot : slot * layout_.head_dim + e;
      switch (layout_.dtype) {
        case DType::kF16:
          row.push_back(F32FromF16(reinterpret_cast<const uint16_t*>(piece)[index]));
          break;
        case DType::kBF16:
          row.push_back(F32FromBF16(reinterpret_cast<const uint16_t*>(piece)[index]));
          break;
        case DType::kI8:
          row.push_back(reinterpret_cast<const int8_t*>(piece)[index]);
          break;
        default:
          row.push_back(reinterpret_cast<const float*>(piece)[index]);
      }
    }
    kv_[kv][head].rows.push_back(std::move(row));
    if (!layout_.has_scales()) return;
    const std::byte* scales = piece + layout_.HeadBytes() - layout_.block_size * sizeof(float);
    kv_[kv][head].scales.push_back(reinterpret_cast<const float*>(scales)[slot]);
  }

  const KvLayout layout_;
  std::vector<BlockId> blocks_;
  std::vector<std::byte> memory_;
  std::vector<reference::KvRows> kv_[2];  // [k|v][head]
};

struct Shape {
  int64_t heads, kv_heads, head_dim, block_size, window;
};

std::vector<float> RunAttention(const Shape& shape, const PagedSequence& memory, const std::vector<float>& queries,
                                int64_t position, int64_t first, int64_t count, ThreadPool& pool) {
  const cpu::AttentionShape attention{memory.layout().dtype,
                                      shape.heads,
                                      shape.kv_heads,
                                      shape.head_dim,
                                      shape.block_size,
                                      static_cast<int64_t>(memory.layout().HeadBytes()),
                                      static_cast<int64_t>(memory.layout().BytesPerBlock()),
                                      1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
                                      shape.window};
  const int64_t width = shape.heads * shape.head_dim;
  const cpu::AttentionSequence sequence{0, count, position + first, memory.blocks()};
  cpu::AttentionWorkspace workspace(pool.threads(), 1);
  std::vector<float> out(count * width);
  cpu::Attention(attention, {&sequence, 1}, memory.keys(), memory.values(), queries.data() + first * width, width,
                 out.data(), width, workspace, pool);
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

constexpr DType kFormats[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8};

TEST(Attention, EqualsTheReferenceBitForBitOnEveryTargetAndFormat) {
  ThreadPool pool(2);
  struct Case {
    Shape shape;
    int64_t position, queries;
  };
  for (const auto& [shape, position, queries] :
       {Case{{14, 2, 64, 16, 0}, 0, 70},      // a prompt, groups of 7
        Case{{14, 2, 64, 16, 0}, 150, 1},     // a decode step
        Case{{14, 2, 64, 16, 0}, 1030, 1},    // over several segments
        Case{{14, 2, 64, 32, 0}, 255, 1},     // the last position of a segment
        Case{{8, 1, 128, 16, 0}, 256, 1},     // the first one of a segment, a group of 8
        Case{{8, 1, 128, 32, 0}, 250, 20},    // a chunk across the border of segments
        Case{{2, 2, 64, 16, 0}, 300, 1},      // no groups
        Case{{4, 4, 32, 32, 0}, 60, 9},       // across the border of ranges
        Case{{3, 1, 128, 16, 20}, 90, 50},    // a window
        Case{{14, 2, 64, 16, 300}, 700, 1},   // a window that begins inside a segment
        Case{{14, 2, 64, 16, 290}, 500, 40},  // windows that begin in different segments
        Case{{6, 3, 10, 16, 0}, 3, 66},       // dimensions that fill no vector
        Case{{6, 3, 10, 16, 0}, 270, 1}, Case{{2, 1, 80, 8, 64}, 128, 2}, Case{{5, 5, 256, 16, 7}, 0, 12},
        Case{{12, 1, 64, 16, 0}, 65, 1}, Case{{96, 1, 32, 16, 0}, 300, 2}}) {
    for (const DType dtype : kFormats) {
      SCOPED_TRACE(std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " heads of " +
                   std::to_string(shape.head_dim) + " " + std::string(DTypeName(dtype)) + ", " +
                   std::to_string(queries) + " at " + std::to_string(position));
      const PagedSequence memory(dtype, shape.kv_heads, shape.head_dim, shape.block_size, position + queries, 1);
      const std::vector<float> q = RandomFloats(queries * shape.heads * shape.head_dim, 2, 3.0f);
      const std::vector<float> expected = Expected(shape, memory, q, position, queries);
      ForEveryTarget([&] {
        const std::vector<float> out = RunAttention(shape, memory, q, position, 0, queries, pool);
        ExpectSameBits(out.data(), expected.data(), expected.size());
      });
    }
  }
}

TEST(Attention, AChunkOfAnyLengthEqualsTheWholePromptForAnyThreadCount) {
  constexpr int64_t kLength = 290;
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    for (const int64_t window : {0, 33}) {
      const Shape shape{6, 2, 32, 16, window};
      const PagedSequence memory(dtype, shape.kv_heads, shape.head_dim, shape.block_size, kLength, 3);
      const int64_t width = shape.heads * shape.head_dim;
      const std::vector<float> q = RandomFloats(kLength * width, 4, 3.0f);
      ThreadPool one(1);
      const std::vector<float> whole = RunAttention(shape, memory, q, 0, 0, kLength, one);
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        for (const int64_t chunk : {1, 7, 64, 100}) {
          for (int64_t first = 0; first < kLength; first += chunk) {
            const int64_t count = std::min(chunk, kLength - first);
            const std::vector<float> out = RunAttention(shape, memory, q, 0, first, count, pool);
            ExpectSameBits(out.data(), whole.data() + first * width, out.size());
          }
        }
      }
    }
  }
}

TEST(Attention, SequencesOfABatchDoNotMeet) {
  const Shape shape{14, 2, 64, 16, 0};
  const int64_t width = shape.heads * shape.head_dim;
  const std::vector<std::pair<int64_t, int64_t>> parts = {{600, 1}, {0, 30}, {1, 1}, {260, 3}};  // position, queries
  std::vector<PagedSequence> memories;
  std::vector<std::vector<float>> alone;
  std::vector<float> queries;
  ThreadPool pool(3);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [position, count] = parts[i];
    memories.emplace_back(DType::kF16, 2, 64, 16, position + count, 10 * static_cast<uint32_t>(i));
    const std::vector<float> q = RandomFloats(count * width, static_cast<uint32_t>(i), 3.0f);
    alone.push_back(RunAttention(shape, memories[i], q, position, 0, count, pool));
    queries.insert(queries.end(), q.begin(), q.end());
  }
  // One pool for all: the sequences' blocks one behind the other.
  const KvLayout layout = memories[0].layout();
  std::vector<std::byte> memory;
  std::vector<std::vector<BlockId>> tables;
  for (const PagedSequence& part : memories) {
    const auto first = static_cast<BlockId>(memory.size() / layout.BytesPerBlock());
    tables.push_back(part.blocks());
    for (BlockId& block : tables.back()) block += first;
    const auto* bytes = static_cast<const std::byte*>(part.keys());
    memory.insert(memory.end(), bytes, bytes + part.blocks().size() * layout.BytesPerBlock());
  }
  std::vector<cpu::AttentionSequence> sequences;
  int64_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    sequences.push_back({rows, parts[i].second, parts[i].first, tables[i]});
    rows += parts[i].second;
  }
  const cpu::AttentionShape attention{layout.dtype,
                                      14,
                                      2,
                                      64,
                                      16,
                                      static_cast<int64_t>(layout.HeadBytes()),
                                      static_cast<int64_t>(layout.BytesPerBlock()),
                                      0.125f};
  cpu::AttentionWorkspace workspace(pool.threads(), 4);
  std::vector<float> out(rows * width);
  for (int repeat = 0; repeat < 3; ++repeat) {
    cpu::Attention(attention, sequences, memory.data(), memory.data() + layout.HeadOffset(0, 0, 1, 0), queries.data(),
                   width, out.data(), width, workspace, pool);
    for (size_t i = 0; i < parts.size(); ++i) {
      ExpectSameBits(out.data() + sequences[i].first_row * width, alone[i].data(), alone[i].size());
    }
  }
}

TEST(Attention, IsCloseToDoublePrecision) {
  constexpr int64_t kLength = 150;
  const Shape shape{1, 1, 64, 16, 0};
  const PagedSequence memory(DType::kF32, 1, 64, 16, kLength, 5);
  const std::vector<float> q = RandomFloats(kLength * 64, 6, 4.0f);
  ThreadPool pool(1);
  const std::vector<float> out = RunAttention(shape, memory, q, 0, 0, kLength, pool);
  for (int64_t i = 0; i < kLength; ++i) {
    std::vector<double> sum(64, 0.0);
    double total = 0;
    for (int64_t p = 0; p <= i; ++p) {
      double score = 0;
      for (int64_t e = 0; e < 64; ++e) score += double{q[i * 64 + e]} * memory.rows(0, 0).rows[p][e];
      const double weight = std::exp(score / 8);
      total += weight;
      for (int64_t e = 0; e < 64; ++e) sum[e] += weight * memory.rows(1, 0).rows[p][e];
    }
    for (int64_t e = 0; e < 64; ++e) EXPECT_NEAR(out[i * 64 + e], sum[e] / total, 2e-6);
  }
}

}  // namespace
}  // namespace baton
