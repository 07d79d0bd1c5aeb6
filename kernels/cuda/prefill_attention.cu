#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/prefill_attention.h"
#include "kernels/cuda/primitives.h"

namespace baton::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kWarpRows = kPrefillRows / kWarps;  // one tensor-core tile
constexpr int kTile = 64;                         // positions
constexpr int kChunk = 8;                         // elements of 16 bytes
constexpr float kLog2E = 1.44269504f;
constexpr float kNothing = -INFINITY;

struct Arguments {
  PagedKv kv;
  const BlockId* block_tables;
  int table_stride;
  const PrefillTile* tiles;
  int heads, group;
  int window;
  int block_shift;  // positions a block has, as a power of two
  float scale;      // of scores in powers of two
  int64_t q_stride;
  const void* queries;
  void* out;
};

// Element of chunk `chunk` of row `row` in a shared tile. Chunks are exchanged within a row so that the eight rows of a
// LoadMatrices lie in different banks.
template <int kHeadDim>
__device__ __forceinline__ int At(int row, int chunk) {
  return row * kHeadDim + (chunk ^ (row % 8)) * kChunk;
}

// Eight numbers, or zeros when not `valid`. Those stored as fp8 are widened, exactly, and are there when this returns;
// others when the copies are waited for.
template <typename T, typename Stored>
__device__ __forceinline__ void CopyChunk(T* to, const Stored* from, bool valid) {
  if constexpr (std::is_same_v<T, Stored>) {
    CopyAsync16(to, from, valid);
  } else {
    float numbers[kChunk] = {};
    if (valid) LoadFloats(from, numbers);
    StoreFloats(numbers, to);
  }
}

// Starts copying keys and values of positions [start, start + kTile); those at and beyond `end` become zero.
template <typename T, typename Stored, int kHeadDim>
__device__ __forceinline__ void CopyTile(const Arguments& a, const BlockId* table, int kv_head, int start, int end,
                                         T* keys, T* values) {
  constexpr int kChunks = kHeadDim / kChunk;
  const int slots = 1 << a.block_shift;
  const auto* key_base = static_cast<const Stored*>(a.kv.keys);
  const auto* value_base = static_cast<const Stored*>(a.kv.values);
  constexpr int kAtOnce = 2;  // whose entries of the table are under way together
  for (int first = static_cast<int>(threadIdx.x); first < kTile * kChunks; first += kAtOnce * kThreads) {
    BATON_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kThreads;
      const int row = i / kChunks, chunk = i % kChunks, position = start + row;
      int64_t offset = 0;
      if (position < end) {
        offset = int64_t{table[position >> a.block_shift]} * a.kv.block_stride +
                 ((kv_head << a.block_shift) + (position & (slots - 1))) * kHeadDim + chunk * kChunk;
      }
      CopyChunk(keys + At<kHeadDim>(row, chunk), key_base + offset, position < end);
      CopyChunk(values + At<kHeadDim>(row, chunk), value_base + offset, position < end);
    }
  }
}

template <typename T, typename Stored, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2) PrefillKernel(Arguments a) {
  constexpr int kSteps = kHeadDim / 16;    // of 16 elements of head_dim
  constexpr int kScoreTiles = kTile / 8;   // of 8 positions
  constexpr int kOutTiles = kHeadDim / 8;  // of 8 elements of head_dim
  constexpr int kTileElements = kTile * kHeadDim;
  const PrefillTile tile = a.tiles[gridDim.x - 1 - blockIdx.x];  // the last of a prompt, which see most, begin first
  const int kv_head = static_cast<int>(blockIdx.y);
  const BlockId* table = a.block_tables + int64_t{tile.sequence} * a.table_stride;
  const int lane = Lane(), warp = WarpIndex();
  const int row_count = tile.queries * a.group;
  const auto position_of = [&](int row) { return tile.position + ((row < row_count ? row : row_count - 1) / a.group); };
  const int end = position_of(tile.first + kPrefillRows - 1) + 1;
  const int first_position = position_of(tile.first);
  const int lowest = a.window == 0 ? 0 : first_position - a.window + 1;
  const int begin = lowest > 0 ? lowest / kTile * kTile : 0;

  SharedArena shared;
  T* query_tile = shared.Take<T>(kPrefillRows * kHeadDim);
  T* key_tiles = shared.Take<T>(2 * kTileElements);
  T* value_tiles = shared.Take<T>(2 * kTileElements);

  for (int i = static_cast<int>(threadIdx.x); i < kPrefillRows * kHeadDim / kChunk; i += kThreads) {
    const int row = i / (kHeadDim / kChunk), chunk = i % (kHeadDim / kChunk), packed = tile.first + row;
    const T* from = static_cast<const T*>(a.queries);
    if (packed < row_count) {
      from += (tile.first_row + packed / a.group) * a.q_stride + (kv_head * a.group + packed % a.group) * kHeadDim +
              chunk * kChunk;
    }
    CopyAsync16(query_tile + At<kHeadDim>(row, chunk), from, packed < row_count);
  }
  CopyTile<T, Stored, kHeadDim>(a, table, kv_head, begin, end, key_tiles, value_tiles);
  CommitCopies();

  float out[kOutTiles][4] = {};
  // Of the two rows that this lane's accumulators belong to: lane / 4 and 8 below it.
  // Maxima are those of unscaled scores.
  float maxima[2] = {kNothing, kNothing}, totals[2] = {};
  const int first_row = tile.first + warp * kWarpRows + lane / 4;
  const int positions[2] = {position_of(first_row), position_of(first_row + 8)};
  const int matrix_row = lane % 8, matrix = lane / 8;

  int stage = 0;
  for (int start = begin; start < end; start += kTile, stage ^= 1) {
    const T* keys = key_tiles + stage * kTileElements;
    const T* values = value_tiles + stage * kTileElements;
    WaitCopies<0>();
    BlockBarrier();  // this tile is there for all, and nobody reads the other stage any more
    if (start + kTile < end) {
      CopyTile<T, Stored, kHeadDim>(a, table, kv_head, start + kTile, end, key_tiles + (stage ^ 1) * kTileElements,
                                    value_tiles + (stage ^ 1) * kTileElements);
      CommitCopies();
    }

    float scores[kScoreTiles][4] = {};
    BATON_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      uint32_t queries[4];  // read again for every tile: held, they would cost the registers that the sums need
      LoadMatrices(queries,
                   query_tile + At<kHeadDim>(warp * kWarpRows + matrix % 2 * 8 + matrix_row, 2 * step + matrix / 2));
      BATON_UNROLL
      for (int n = 0; n < kScoreTiles; n += 2) {
        uint32_t matrices[4];
        LoadMatrices(matrices, keys + At<kHeadDim>(n * 8 + matrix / 2 * 8 + matrix_row, 2 * step + matrix % 2));
        MultiplyTiles<T>(scores[n], queries, {matrices[0], matrices[1]});
        MultiplyTiles<T>(scores[n + 1], queries, {matrices[2], matrices[3]});
      }
    }

    // Most tiles lie whole before every row of the block, and need no mask.
    const bool masked = start + kTile > first_position + 1 || a.window != 0;
    BATON_UNROLL
    for (int half = 0; half < 2; ++half) {
      float maximum = maxima[half];
      BATON_UNROLL
      for (int n = 0; n < kScoreTiles; ++n) {
        BATON_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          if (masked) {
            const int position = start + n * 8 + lane % 4 * 2 + i % 2;
            const bool seen = position <= positions[half] && (a.window == 0 || position > positions[half] - a.window);
            if (!seen) scores[n][i] = kNothing;
          }
          maximum = fmaxf(maximum, scores[n][i]);
        }
      }
      maximum = fmaxf(maximum, ShuffleXor(maximum, 1));
      maximum = fmaxf(maximum, ShuffleXor(maximum, 2));
      const float base = maximum == kNothing ? 0.0f : maximum * a.scale;
      const float fade = Exp2(fmaf(maxima[half], a.scale, -base));
      maxima[half] = maximum;
      totals[half] *= fade;
      BATON_UNROLL
      for (int n = 0; n < kScoreTiles; ++n) {
        BATON_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[n][i] = Exp2(fmaf(scores[n][i], a.scale, -base));
          totals[half] += scores[n][i];
        }
      }
      BATON_UNROLL
      for (int n = 0; n < kOutTiles; ++n) {
        out[n][2 * half] *= fade;
        out[n][2 * half + 1] *= fade;
      }
    }

    BATON_UNROLL
    for (int k = 0; k < kScoreTiles; k += 2) {
      const uint32_t weights[4] = {PackPair<T>(scores[k][0], scores[k][1]), PackPair<T>(scores[k][2], scores[k][3]),
                                   PackPair<T>(scores[k + 1][0], scores[k + 1][1]),
                                   PackPair<T>(scores[k + 1][2], scores[k + 1][3])};
      BATON_UNROLL
      for (int n = 0; n < kOutTiles; n += 2) {
        uint32_t matrices[4];
        LoadMatricesTransposed(matrices, values + At<kHeadDim>(k * 8 + matrix % 2 * 8 + matrix_row, n + matrix / 2));
        MultiplyTiles<T>(out[n], weights, {matrices[0], matrices[1]});
        MultiplyTiles<T>(out[n + 1], weights, {matrices[2], matrices[3]});
      }
    }
  }

  BATON_UNROLL
  for (int half = 0; half < 2; ++half) {
    float total = totals[half] + ShuffleXor(totals[half], 1);
    total += ShuffleXor(total, 2);
    if constexpr (!std::is_same_v<T, Stored>) total /= a.kv.value_scale;
    const int packed = first_row + 8 * half;
    if (packed >= row_count) continue;
    const int64_t row = tile.first_row + packed / a.group;
    T* to = static_cast<T*>(a.out) + (row * a.heads + kv_head * a.group + packed % a.group) * kHeadDim + lane % 4 * 2;
    BATON_UNROLL
    for (int n = 0; n < kOutTiles; ++n) {
      *reinterpret_cast<uint32_t*>(to + n * 8) = PackPair<T>(out[n][2 * half] / total, out[n][2 * half + 1] / total);
    }
  }
}

template <typename T, typename Stored, int kHeadDim>
Error Run(const Arguments& arguments, int64_t tile_count, Stream stream) {
  const size_t shared = SharedBytes<T>(kPrefillRows * kHeadDim) + 2 * SharedBytes<T>(2 * kTile * kHeadDim);
  const dim3 grid(static_cast<unsigned>(tile_count), static_cast<unsigned>(arguments.kv.kv_heads));
  return Launch(PrefillKernel<T, Stored, kHeadDim>, {grid, dim3(kThreads), shared, stream}, arguments);
}

template <typename T>
Error RunShape(const Arguments& arguments, int64_t tile_count, Stream stream) {
  if (arguments.kv.fp8) {
    if (arguments.kv.head_dim == 64) return Run<T, F8, 64>(arguments, tile_count, stream);
    return Run<T, F8, 128>(arguments, tile_count, stream);
  }
  if (arguments.kv.head_dim == 64) return Run<T, T, 64>(arguments, tile_count, stream);
  return Run<T, T, 128>(arguments, tile_count, stream);
}

}  // namespace

bool TakesPrefill(const PagedKv& kv) {
  return (kv.dtype == DType::kF16 || kv.dtype == DType::kBF16) && (kv.head_dim == 64 || kv.head_dim == 128);
}

Error PrefillAttention(const PrefillAttentionShape& shape, const PagedKv& kv, const BlockId* block_tables,
                       int32_t table_stride, const PrefillTile* tiles, int64_t tile_count, const void* queries,
                       void* out, Stream stream) {
  if (!TakesPrefill(kv) || shape.heads % kv.kv_heads != 0 ||
      !std::has_single_bit(static_cast<unsigned>(kv.block_size)) || !(shape.scale > 0)) {
    return Error::kInvalidValue;
  }
  const Arguments arguments{.kv = kv,
                            .block_tables = block_tables,
                            .table_stride = table_stride,
                            .tiles = tiles,
                            .heads = shape.heads,
                            .group = shape.heads / kv.kv_heads,
                            .window = shape.window,
                            .block_shift = std::countr_zero(static_cast<unsigned>(kv.block_size)),
                            .scale = shape.scale * kLog2E * (kv.fp8 ? kv.key_scale : 1.0f),
                            .q_stride = shape.q_stride,
                            .queries = queries,
                            .out = out};
  if (kv.dtype == DType::kBF16) return RunShape<BF16>(arguments, tile_count, stream);
  return RunShape<F16>(arguments, tile_count, stream);
}

}  // namespace baton::cuda
