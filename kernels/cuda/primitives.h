#pragma once

// Everything in a kernel that is neither plain C++ nor threadIdx and blockIdx: barriers, shuffles, asynchronous copies,
// tensor-core tiles, atomics, shared memory. In tests tests/fakes/cuda/include/cuda_stand_in_primitives.h defines the
// same for the host. All lanes of a warp take part in every warp-wide operation.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/number.h"

#if !defined(__CUDACC__)
#include <cuda_stand_in_primitives.h>
#else

namespace baton::cuda {

// All threads of the block; makes their writes visible to each other.
__device__ __forceinline__ void BlockBarrier() { __syncthreads(); }
// The same for a warp.
__device__ __forceinline__ void WarpBarrier() { __syncwarp(); }

// The value of another lane; T has 4 or 8 bytes. ShuffleUp gives the own value where no such lane is.
template <typename T>
__device__ __forceinline__ T ShuffleXor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <typename T>
__device__ __forceinline__ T Shuffle(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
template <typename T>
__device__ __forceinline__ T ShuffleUp(T value, int delta) {
  return __shfl_up_sync(0xffffffffu, value, delta);
}
// Bit i: lane i's `predicate`.
__device__ __forceinline__ uint32_t Ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }

// 16 bytes from global to shared memory, both aligned to 16; zeros when not `valid` (`from` is not read then). They are
// there after CommitCopies() and WaitCopies<N>(), which waits until at most N committed groups of this thread are under
// way; other threads see them after a barrier besides.
__device__ __forceinline__ void CopyAsync16(void* to, const void* from, bool valid) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from), "r"(valid ? 16 : 0)
      : "memory");
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kNewest>
__device__ __forceinline__ void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements from shared memory. Lane 8 i + r gives the address of row r of matrix i (16
// bytes, aligned to 16). Lane l gets elements 2 (l % 4) and the next of row l / 4 of matrix i in matrices[i]; of column
// l / 4 when transposed.
__device__ __forceinline__ void LoadMatrices(uint32_t (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

// sums += a b on tensor cores: a 16 x 16, b 16 x 8, sums 16 x 8 in f32. With g = lane / 4 and t = 2 (lane % 4), two
// elements a register, the lower half first (PTX ISA, "Matrix fragments for mma.m16n8k16"):
//   a[0]: row g, columns t, t + 1      a[1]: row g + 8, the same      a[2], a[3]: the same rows, columns t + 8, t + 9
//   b[0]: rows t, t + 1, column g      b[1]: rows t + 8, t + 9
//   sums[0], sums[1]: row g, columns t, t + 1                         sums[2], sums[3]: row g + 8
template <typename T>
__device__ __forceinline__ void MultiplyTiles(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(sizeof(T) == 2);
  if constexpr (IsBF16<T>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// On shared or global memory; T is uint32_t, int32_t or uint64_t.
template <typename T>
__device__ __forceinline__ void AtomicAdd(T* to, T value) {
  if constexpr (sizeof(T) == 8) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
  } else {
    atomicAdd(to, value);
  }
}

// 2^x, at most 2 units in the last place off; 0 for -infinity.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Hands out the block's dynamic shared memory, each array aligned to 16. Every thread takes the same arrays in the same
// order; a launch asks for SharedBytes<T>(count) of each.
class SharedArena {
 public:
  template <typename T>
  __device__ __forceinline__ T* Take(int count) {
    extern __shared__ __align__(16) unsigned char baton_shared_memory[];
    T* array = reinterpret_cast<T*>(baton_shared_memory + offset_);
    offset_ += (static_cast<int>(sizeof(T)) * count + 15) / 16 * 16;
    return array;
  }

 private:
  int offset_ = 0;
};

}  // namespace baton::cuda

#endif

namespace baton::cuda {

inline constexpr int kWarp = 32;

template <typename T>
constexpr size_t SharedBytes(int64_t count) {
  return (sizeof(T) * static_cast<size_t>(count) + 15) / 16 * 16;
}

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int WarpIndex() { return static_cast<int>(threadIdx.x) / kWarp; }

__device__ __forceinline__ float WarpSum(float value) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value += ShuffleXor(value, mask);
  return value;
}

}  // namespace baton::cuda
