// Both attention kernels against double precision and against the CPU's kernel, for every way to cut a prompt.

#include "kernels/attention.h"

#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "kernels/cuda/decode_attention.h"
#include "kernels/cuda/prefill_attention.h"
#include "kernels/cuda/rope_kv.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/kernels/cuda/numbers.h"
#include "tests/kernels/cuda/thread_orders.h"

namespace baton {
namespace {

struct Shape {
  DType dtype = DType::kBF16;
  int32_t heads = 1, kv_heads = 1, head_dim = 64, block_size = 16, window = 0;
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
  int32_t width() const { return heads * head_dim; }
};

// Sequences in one layer's pool. Their blocks lie in random order; what nobody stored is NaN.
class Pool {
 public:
  Pool(const Shape& shape, const std::vector<int32_t>& lengths, uint32_t seed) : shape_(shape), lengths_(lengths) {
    int32_t blocks = 0;
    for (const int32_t length : lengths) {
      table_stride_ = std::max(table_stride_, (length + shape.block_size - 1) / shape.block_size);
      blocks += (length + shape.block_size - 1) / shape.block_size;
    }
    std::vector<BlockId> ids(blocks);
    std::iota(ids.begin(), ids.end(), BlockId{0});
    std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
    tables_.assign(lengths.size() * table_stride_, BlockId{1} << 31);  // no entry beyond the last block may be used
    values_.assign(blocks * block_stride(), std::nanf(""));
    size_t next = 0;
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int32_t p = 0; p < lengths[s]; ++p) {
        if (p % shape.block_size == 0) tables_[s * table_stride_ + p / shape.block_size] = ids[next++];
        for (int kv = 0; kv < 2; ++kv) {
          for (int32_t head = 0; head < shape.kv_heads; ++head) {
            const auto row = Rounded(shape.dtype, RandomFloats(shape.head_dim, seed++, kv == 0 ? 2.0f : 1.0f));
            std::copy(row.begin(), row.end(), values_.begin() + Offset(s, kv, head, p));
          }
        }
      }
    }
  }

  int64_t block_stride() const { return int64_t{2} * shape_.kv_heads * shape_.block_size * shape_.head_dim; }
  int32_t table_stride() const { return table_stride_; }
  const std::vector<float>& values() const { return values_; }
  const std::vector<BlockId>& tables() const { return tables_; }
  std::span<const BlockId> table(size_t s) const {
    return std::span(tables_).subspan(s * table_stride_, table_stride_);
  }
  const float* Row(size_t s, int kv, int32_t head, int32_t p) const { return values_.data() + Offset(s, kv, head, p); }

 private:
  int64_t Offset(size_t s, int kv, int32_t head, int32_t p) const {
    return int64_t{tables_[s * table_stride_ + p / shape_.block_size]} * block_stride() +
           ((kv * shape_.kv_heads + head) * shape_.block_size + p % shape_.block_size) * int64_t{shape_.head_dim};
  }

  const Shape shape_;
  const std::vector<int32_t> lengths_;
  int32_t table_stride_ = 0;
  std::vector<BlockId> tables_;
  std::vector<float> values_;
};

// Query i of a sequence sits at position + i.
struct Queries {
  int32_t sequence, position, count;
};

std::vector<float> InDoublePrecision(const Shape& shape, const Pool& pool, const std::vector<Queries>& batch,
                                     const std::vector<float>& queries) {
  std::vector<float> out;
  int64_t row = 0;
  for (const Queries& part : batch) {
    for (int32_t i = 0; i < part.count; ++i, ++row) {
      const int32_t position = part.position + i;
      for (int32_t head = 0; head < shape.heads; ++head) {
        const float* q = queries.data() + row * shape.width() + head * shape.head_dim;
        std::vector<double> sums(shape.head_dim);
        double total = 0;
        for (int32_t p = shape.window == 0 ? 0 : std::max(0, position - shape.window + 1); p <= position; ++p) {
          const int32_t kv_head = head / (shape.heads / shape.kv_heads);
          const float* k = pool.Row(part.sequence, 0, kv_head, p);
          const float* v = pool.Row(part.sequence, 1, kv_head, p);
          double score = 0;
          for (int32_t e = 0; e < shape.head_dim; ++e) score += double{q[e]} * k[e];
          const double weight = std::exp(score * shape.scale());
          total += weight;
          for (int32_t e = 0; e < shape.head_dim; ++e) sums[e] += weight * v[e];
        }
        for (const double sum : sums) out.push_back(static_cast<float>(sum / total));
      }
    }
  }
  return out;
}

// The pool with every block's keys as the CPU's kernels read them, element by element.
std::vector<float> KeysByElement(const Shape& shape, const Pool& pool) {
  std::vector<float> out = pool.values();
  const int64_t piece = int64_t{shape.block_size} * shape.head_dim;
  for (size_t block = 0; block < out.size(); block += pool.block_stride()) {
    for (int64_t i = 0; i < shape.kv_heads * piece; ++i) {
      const int64_t slot = i % piece / shape.head_dim, element = i % shape.head_dim;
      out[block + i / piece * piece + element * shape.block_size + slot] = pool.values()[block + i];
    }
  }
  return out;
}

std::vector<float> ByTheCpu(const Shape& shape, const Pool& pool, const std::vector<Queries>& batch,
                            const std::vector<float>& queries) {
  const cpu::AttentionShape attention{.kv_dtype = DType::kF32,
                                      .heads = shape.heads,
                                      .kv_heads = shape.kv_heads,
                                      .head_dim = shape.head_dim,
                                      .block_size = shape.block_size,
                                      .head_stride = int64_t{4} * shape.block_size * shape.head_dim,
                                      .block_stride = 4 * pool.block_stride(),
                                      .scale = shape.scale(),
                                      .window = shape.window};
  std::vector<cpu::AttentionSequence> sequences;
  int64_t row = 0;
  for (const Queries& part : batch) {
    sequences.push_back({row, part.count, part.position, pool.table(part.sequence)});
    row += part.count;
  }
  ThreadPool threads(1);
  cpu::AttentionWorkspace workspace(1, static_cast<int64_t>(batch.size()));
  const std::vector<float> memory = KeysByElement(shape, pool);
  std::vector<float> out(queries.size());
  cpu::Attention(attention, sequences, memory.data(), memory.data() + pool.block_stride() / 2, queries.data(),
                 shape.width(), out.data(), shape.width(), workspace, threads);
  return out;
}

class CudaAttention : public CudaTest {
 protected:
  cuda::PagedKv Upload(const Shape& shape, const Pool& pool) {
    std::byte* memory = ToDevice(Encode(shape.dtype, pool.values()));
    return {shape.dtype,        memory,         memory + pool.block_stride() / 2 * BlockOf(shape.dtype).bytes,
            shape.kv_heads,     shape.head_dim, shape.block_size,
            pool.block_stride()};
  }

  // The queries lie in rows that hold more than them, as in a qkv buffer.
  std::byte* UploadQueries(const Shape& shape, const std::vector<float>& queries) {
    const size_t rows = queries.size() / shape.width();
    std::vector<float> wide(rows * (shape.width() + 16), std::nanf(""));
    for (size_t row = 0; row < rows; ++row) {
      std::copy_n(queries.begin() + row * shape.width(), shape.width(), wide.begin() + row * (shape.width() + 16));
    }
    return ToDevice(Encode(shape.dtype, wide));
  }

  std::vector<float> Decoded(const Shape& shape, const Pool& pool, const std::vector<Queries>& batch,
                             const std::vector<float>& queries, int64_t max_length) {
    std::vector<int32_t> positions, sequences;
    for (const Queries& part : batch) {
      for (int32_t i = 0; i < part.count; ++i) {
        positions.push_back(part.position + i);
        sequences.push_back(part.sequence);
      }
    }
    const cuda::PagedRows rows{ToDevice(positions), ToDevice(sequences), ToDevice(pool.tables()), pool.table_stride()};
    return Decoded(shape, Upload(shape, pool), rows, static_cast<int64_t>(positions.size()), max_length, queries);
  }
  std::vector<float> Decoded(const Shape& shape, const cuda::PagedKv& kv, const cuda::PagedRows& rows, int64_t count,
                             int64_t max_length, const std::vector<float>& queries) {
    const cuda::DecodeAttentionShape attention{shape.heads, shape.window, shape.scale(), max_length,
                                               shape.width() + 16};
    std::byte* out = NewDevice<std::byte>(count * shape.width() * BlockOf(shape.dtype).bytes);
    std::byte* workspace = NewDevice<std::byte>(cuda::DecodeAttentionWorkspace(attention, shape.head_dim, count));
    Expect(cuda::DecodeAttention(attention, kv, rows, count, UploadQueries(shape, queries), out, workspace, stream()));
    return Decode(shape.dtype, ToHost(out, count * shape.width() * BlockOf(shape.dtype).bytes).data(),
                  count * shape.width());
  }

  std::vector<float> Prefilled(const Shape& shape, const Pool& pool, const std::vector<Queries>& batch,
                               const std::vector<float>& queries) {
    return Prefilled(shape, Upload(shape, pool), ToDevice(pool.tables()), pool.table_stride(), batch, queries);
  }
  std::vector<float> Prefilled(const Shape& shape, const cuda::PagedKv& kv, const BlockId* tables, int32_t table_stride,
                               const std::vector<Queries>& batch, const std::vector<float>& queries) {
    std::vector<cuda::PrefillTile> tiles;
    int32_t rows = 0;
    for (const Queries& part : batch) {
      cuda::AppendPrefillTiles(part.sequence, rows, part.count, part.position, shape.heads / shape.kv_heads, tiles);
      rows += part.count;
    }
    std::byte* out = NewDevice<std::byte>(rows * shape.width() * 2);
    Expect(cuda::PrefillAttention({shape.heads, shape.window, shape.scale(), shape.width() + 16}, kv, tables,
                                  table_stride, ToDevice(tiles), static_cast<int64_t>(tiles.size()),
                                  UploadQueries(shape, queries), out, stream()));
    return Decode(shape.dtype, ToHost(out, rows * shape.width() * 2).data(), rows * shape.width());
  }

  static std::vector<float> RandomQueries(const Shape& shape, const std::vector<Queries>& batch) {
    size_t rows = 0;
    for (const Queries& part : batch) rows += part.count;
    return Rounded(shape.dtype, RandomFloats(rows * shape.width(), 99, 2.0f));
  }
};

std::string Name(const Shape& shape) {
  return std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " heads of " +
         std::to_string(shape.head_dim) + " window " + std::to_string(shape.window) + " " +
         std::string(DTypeName(shape.dtype));
}

TEST_F(CudaAttention, DecodeReadsEveryPositionOfEverySplit) {
  for (Shape shape :
       {Shape{.heads = 14, .kv_heads = 2}, Shape{.heads = 3, .kv_heads = 3, .head_dim = 128, .block_size = 32},
        Shape{.heads = 6, .kv_heads = 1, .head_dim = 80, .window = 50},
        Shape{.heads = 10, .kv_heads = 1, .head_dim = 16},
        Shape{.heads = 2, .kv_heads = 1, .head_dim = 256, .window = 600}}) {
    const std::vector<int32_t> lengths = {1, 77, 512, 1100};
    std::vector<Queries> batch;
    for (int32_t s = 0; s < 4; ++s) batch.push_back({s, lengths[s] - 1, 1});
    for (const DType dtype : kActivationFormats) {
      shape.dtype = dtype;
      SCOPED_TRACE(Name(shape));
      const Pool pool(shape, lengths, 1);
      const std::vector<float> queries = RandomQueries(shape, batch);
      const std::vector<float> exact = InDoublePrecision(shape, pool, batch, queries);
      const std::vector<float> actual = Decoded(shape, pool, batch, queries, 1100);
      ExpectClose(dtype, actual, exact, 1, 0.5f);
      ExpectClose(dtype, actual, ByTheCpu(shape, pool, batch, queries), 1, 0.5f);
    }
  }
}

TEST_F(CudaAttention, DecodeWorksInAnyOrderOfThreads) {
  const Shape shape{.heads = 8, .kv_heads = 1, .head_dim = 128};
  const Pool pool(shape, {600}, 1);
  const std::vector<Queries> batch = {{0, 599, 1}};
  const std::vector<float> queries = RandomQueries(shape, batch);
  std::vector<float> first;
  ForEveryOrder([&] {
    const std::vector<float> actual = Decoded(shape, pool, batch, queries, 600);
    ExpectClose(shape.dtype, actual, InDoublePrecision(shape, pool, batch, queries));
    if (first.empty()) first = actual;
    ExpectSameBits(actual.data(), first.data(), actual.size());
  });
}

TEST_F(CudaAttention, ADecodedRowsBitsDependOnItAlone) {
  const Shape shape{.dtype = DType::kF32, .heads = 4, .kv_heads = 2};
  const Pool pool(shape, {40, 700}, 1);
  const std::vector<Queries> both = {{0, 39, 1}, {1, 699, 1}}, one = {{1, 699, 1}};
  const std::vector<float> queries = RandomQueries(shape, both);
  const std::vector<float> of_both = Decoded(shape, pool, both, queries, 2048);
  const std::vector<float> of_one = Decoded(shape, pool, one, {queries.begin() + shape.width(), queries.end()}, 700);
  ExpectSameBits(of_one.data(), of_both.data() + shape.width(), shape.width());
}

// As part of the size of `expected`.
double RelativeError(const std::vector<float>& actual, const std::vector<float>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(actual[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(error / size);
}

// A grid has fewer blocks than rows, heads and splits: a block then takes several splits.
TEST_F(CudaAttention, ADecodedRowsBitsAreTheSameAmongAThousandOthers) {
  const Shape shape{.dtype = DType::kF32, .heads = 4, .kv_heads = 2};
  const Pool pool(shape, {1700}, 1);
  const std::vector<Queries> one = {{0, 1699, 1}}, among_padding = {{0, 1699, 1}, {0, -1100, 1100}};
  const std::vector<float> queries = RandomQueries(shape, among_padding);
  const std::vector<float> of_one = Decoded(shape, pool, one, {queries.begin(), queries.begin() + shape.width()}, 1700);
  ForEveryOrder([&] {
    const std::vector<float> of_many = Decoded(shape, pool, among_padding, queries, 1700);
    ExpectSameBits(of_one.data(), of_many.data(), shape.width());
  });
  ExpectClose(shape.dtype, of_one, InDoublePrecision(shape, pool, one, queries), 4);
}

// Keys and values go through rope_kv's store, without a rotation, so that their rounding to fp8 is the kernel's own.
TEST_F(CudaAttention, KeysAndValuesStoredAsFp8AreReadWithinTheirRounding) {
  constexpr int32_t kLength = 90;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const int32_t head_dim : {64, 128}) {
      const Shape shape{.dtype = dtype, .heads = 4, .kv_heads = 2, .head_dim = head_dim};
      SCOPED_TRACE(Name(shape));
      const Pool pool(shape, {kLength}, 1);
      const std::vector<Queries> batch = {{0, 0, kLength}};
      const std::vector<float> queries = RandomQueries(shape, batch);
      const int32_t width = shape.width() + 2 * shape.kv_heads * shape.head_dim;
      std::vector<float> qkv(kLength * width);
      std::vector<int32_t> positions(kLength);
      std::iota(positions.begin(), positions.end(), 0);
      for (int32_t p = 0; p < kLength; ++p) {
        for (int32_t i = 0; i < 2 * shape.kv_heads; ++i) {
          std::copy_n(pool.Row(0, i / shape.kv_heads, i % shape.kv_heads, p), shape.head_dim,
                      qkv.begin() + p * width + shape.width() + i * shape.head_dim);
        }
      }
      cuda::PagedKv kv{.dtype = dtype,
                       .kv_heads = shape.kv_heads,
                       .head_dim = shape.head_dim,
                       .block_size = shape.block_size,
                       .block_stride = pool.block_stride(),
                       .fp8 = true,
                       .key_scale = 0.01f,  // the largest key becomes 200
                       .value_scale = 0.125f};
      auto* memory = NewDevice<std::byte>(pool.values().size());
      kv.keys = memory;
      kv.values = memory + pool.block_stride() / 2;
      const BlockId* tables = ToDevice(pool.tables());
      const float* one = ToDevice(std::vector<float>(kLength * shape.head_dim / 2, 1.0f));
      const float* zero = ToDevice(std::vector<float>(kLength * shape.head_dim / 2, 0.0f));
      const cuda::PagedRows rows{ToDevice(positions), ToDevice(std::vector<int32_t>(kLength)), tables,
                                 pool.table_stride()};
      Expect(cuda::RopeAndStoreKv({.cosine = one, .sine = zero}, kv, rows, kLength, shape.heads,
                                  ToDevice(Encode(dtype, qkv)), stream()));
      const std::vector<float> exact = InDoublePrecision(shape, pool, batch, queries);
      const std::vector<float> decoded = Decoded(shape, kv, rows, kLength, kLength, queries),
                               prefilled = Prefilled(shape, kv, tables, pool.table_stride(), batch, queries);
      // Three bits of fraction: each number is off by 1 / 16 at most, a few of them added by less.
      EXPECT_LT(RelativeError(decoded, exact), 0.06);
      EXPECT_GT(RelativeError(decoded, exact), 0.001) << "this is no fp8";
      // From the same stored numbers both compute the same, but for what the activations' format rounds.
      EXPECT_TRUE(cuda::TakesPrefill(kv));
      EXPECT_LT(RelativeError(prefilled, decoded), dtype == DType::kF16 ? 0.001 : 0.006);
    }
  }
}

TEST_F(CudaAttention, PrefillSeesWhatItMaySeeAndNothingElse) {
  struct Case {
    Shape shape;
    std::vector<int32_t> lengths;
    std::vector<Queries> batch;
  };
  for (auto& [shape, lengths, batch] :
       {Case{{.heads = 4, .kv_heads = 2}, {70, 130}, {{0, 0, 70}, {1, 100, 30}}},
        Case{{.heads = 7, .kv_heads = 1, .block_size = 32}, {90}, {{0, 65, 25}}},
        Case{{.heads = 2, .kv_heads = 2, .head_dim = 128}, {129, 1}, {{0, 60, 69}, {1, 0, 1}}},
        Case{{.heads = 2, .kv_heads = 1, .window = 20}, {150}, {{0, 10, 140}}}}) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      Shape typed = shape;
      typed.dtype = dtype;
      SCOPED_TRACE(Name(typed));
      const Pool pool(typed, lengths, 1);
      const std::vector<float> queries = RandomQueries(typed, batch);
      const std::vector<float> actual = Prefilled(typed, pool, batch, queries);
      // Weights are rounded to the format besides.
      ExpectClose(dtype, actual, InDoublePrecision(typed, pool, batch, queries), 2, 0.5f);
      ExpectClose(dtype, actual, ByTheCpu(typed, pool, batch, queries), 2, 0.5f);
    }
  }
}

TEST_F(CudaAttention, PrefillWorksInAnyOrderOfThreads) {
  const Shape shape{.heads = 3, .kv_heads = 1};
  const Pool pool(shape, {100}, 1);
  const std::vector<Queries> batch = {{0, 20, 80}};
  const std::vector<float> queries = RandomQueries(shape, batch);
  std::vector<float> first;
  ForEveryOrder([&] {
    const std::vector<float> actual = Prefilled(shape, pool, batch, queries);
    if (first.empty()) first = actual;
    ExpectSameBits(actual.data(), first.data(), actual.size());
  });
}

TEST_F(CudaAttention, AChunkOfAnyLengthEqualsTheWholePrompt) {
  const Shape shape{.heads = 2, .kv_heads = 1};
  const Pool pool(shape, {140}, 1);
  const std::vector<float> queries = RandomQueries(shape, {{0, 0, 140}});
  const std::vector<float> whole = Prefilled(shape, pool, {{0, 0, 140}}, queries);
  for (const int32_t chunk : {1, 50, 64, 100}) {
    for (int32_t first = 0; first < 140; first += chunk == 1 ? 47 : chunk) {
      const int32_t count = std::min(chunk, 140 - first);
      const std::vector<float> part(queries.begin() + first * shape.width(),
                                    queries.begin() + (first + count) * shape.width());
      const std::vector<float> actual = Prefilled(shape, pool, {{0, first, count}}, part);
      ExpectSameBits(actual.data(), whole.data() + first * shape.width(), actual.size());
    }
  }
}

TEST_F(CudaAttention, ShapesThatDoNotFitAreRefused) {
  cuda::PagedKv kv{.dtype = DType::kBF16, .kv_heads = 2, .head_dim = 12, .block_size = 16};
  EXPECT_EQ(cuda::DecodeAttention({.heads = 4}, kv, {}, 1, nullptr, nullptr, nullptr, stream()),
            cuda::Error::kInvalidValue);
  kv.head_dim = 96;
  EXPECT_FALSE(cuda::TakesPrefill(kv));
  EXPECT_EQ(cuda::PrefillAttention({.heads = 4}, kv, nullptr, 1, nullptr, 1, nullptr, nullptr, stream()),
            cuda::Error::kInvalidValue);
  kv.head_dim = 64;
  EXPECT_TRUE(cuda::TakesPrefill(kv));
  EXPECT_EQ(cuda::PrefillAttention({.heads = 5}, kv, nullptr, 1, nullptr, 1, nullptr, nullptr, stream()),
            cuda::Error::kInvalidValue);
}

}  // namespace
}  // namespace baton
