#pragma once

// kernels/cuda/primitives.h on the host: the same operations by what BlockRunner offers. Exact where the device is;
// sums of a tensor-core tile are added in f32, columns of a ascending.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/base/dtype.h"
#include "kernels/cuda/number.h"
#include "tests/fakes/cuda/block_runner.h"

#define threadIdx (::baton::stand_in::BlockRunner::OfTheMachine().thread().index)
#define blockIdx (::baton::stand_in::BlockRunner::OfTheMachine().thread().block)
#define blockDim (::baton::stand_in::BlockRunner::OfTheMachine().launch().block)
#define gridDim (::baton::stand_in::BlockRunner::OfTheMachine().launch().grid)

namespace baton::cuda {

inline stand_in::BlockRunner& Runner() { return stand_in::BlockRunner::OfTheMachine(); }
inline int RunningLane() { return static_cast<int>(Runner().thread().linear % stand_in::kWarpSize); }

inline void BlockBarrier(int line = __builtin_LINE()) { Runner().BlockBarrier(line); }
inline void WarpBarrier() { Runner().WarpBarrier(); }

// What lane source(own lane) published.
template <typename T, typename Source>
T ExchangeWith(T value, const Source& source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  uint32_t words[2];
  std::memcpy(words, &value, sizeof(T));
  const int lane = RunningLane();
  const auto all = Runner().Exchange(words, sizeof(T) / 4);
  std::memcpy(&value, all[source(lane)], sizeof(T));
  return value;
}
template <typename T>
T ShuffleXor(T value, int mask) {
  return ExchangeWith(value, [mask](int lane) { return lane ^ mask; });
}
template <typename T>
T Shuffle(T value, int from) {
  return ExchangeWith(value, [from](int) { return from; });
}
template <typename T>
T ShuffleUp(T value, int delta) {
  return ExchangeWith(value, [delta](int lane) { return lane < delta ? lane : lane - delta; });
}
inline uint32_t Ballot(bool predicate) {
  const uint32_t word = predicate ? 1 : 0;
  const auto all = Runner().Exchange(&word, 1);
  uint32_t bits = 0;
  for (int lane = 0; lane < stand_in::kWarpSize; ++lane) bits |= all[lane][0] << lane;
  return bits;
}

inline void CopyAsync16(void* to, const void* from, bool valid) { Runner().CopyAsync(to, from, 16, valid ? 16 : 0); }
inline void CommitCopies() { Runner().CommitCopies(); }
template <int kNewest>
void WaitCopies() {
  Runner().WaitCopies(kNewest);
}

template <typename Element>
void LoadMatricesBy(uint32_t (&matrices)[4], const void* row, const Element& element) {
  Runner().CheckAligned(row, 16, "loads a tile's row");
  uint32_t address[2];
  std::memcpy(address, &row, sizeof(row));
  const int lane = RunningLane();
  const auto all = Runner().Exchange(address, 2);
  for (int matrix = 0; matrix < 4; ++matrix) {
    const uint16_t* rows[8];
    for (int r = 0; r < 8; ++r) std::memcpy(&rows[r], all[8 * matrix + r], sizeof(rows[r]));
    const uint32_t low = element(rows, lane / 4, lane % 4 * 2);
    const uint32_t high = element(rows, lane / 4, lane % 4 * 2 + 1);
    matrices[matrix] = low | high << 16;
  }
}
inline void LoadMatrices(uint32_t (&matrices)[4], const void* row) {
  LoadMatricesBy(matrices, row, [](const uint16_t*(&rows)[8], int r, int c) { return rows[r][c]; });
}
inline void LoadMatricesTransposed(uint32_t (&matrices)[4], const void* row) {
  LoadMatricesBy(matrices, row, [](const uint16_t*(&rows)[8], int r, int c) { return rows[c][r]; });
}

template <typename T>
void MultiplyTiles(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  const uint32_t words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const int lane = RunningLane();
  const auto all = Runner().Exchange(words, 6);
  const auto half = [&](int from, int word, int which) {
    return ToFloat(T{static_cast<uint16_t>(all[from][word] >> (16 * which))});
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const float from_a = half(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2);
      const float from_b = half(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
      sums[i] = std::fma(from_a, from_b, sums[i]);
    }
  }
}

template <typename T>
void AtomicAdd(T* to, T value) {
  *to += value;
}

inline float Exp2(float x) { return std::exp2(x); }

class SharedArena {
 public:
  template <typename T>
  T* Take(int count) {
    return static_cast<T*>(Runner().TakeShared(sizeof(T) * static_cast<size_t>(count)));
  }
};

}  // namespace baton::cuda
