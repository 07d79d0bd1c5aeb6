#pragma once

// Runs a kernel's grid on the host, block by block. The threads of a block are fibers: each runs until it waits at a
// barrier, then another goes on. What CUDA leaves undefined ends the launch with an error that says where:
//   - a thread ends while others wait at a barrier, or waits at one that others have passed by their end;
//   - threads of a block wait at different block barriers;
//   - threads take shared memory of different sizes, or more than the launch asked for;
//   - an address of an asynchronous copy or of a tensor-core tile's row is not aligned to 16 bytes.
// Shared arrays are heap allocations of their exact size, filled with 0xff before each block, so AddressSanitizer sees
// an access beyond an end, and a read of what nobody wrote gives NaN. Asynchronous copies happen when they are waited
// for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/fakes/cuda/fiber.h"

namespace baton::stand_in {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  size_t count() const { return size_t{x} * y * z; }
};

inline constexpr int kWarpSize = 32;
inline constexpr int kExchangeWords = 8;

class BlockRunner {
 public:
  struct Launch {
    Dim3 grid;
    Dim3 block;
    size_t shared_bytes = 0;
    std::function<void()> kernel;  // the body of one thread
    // Order of a block's threads between barriers: ascending, or drawn from this seed (blocks then come in any order
    // too), which makes code that lacks a barrier read what was not written yet: of an odd one thread by thread, of an
    // even one warp by warp, each as far as it gets, so that it writes over what others have not read yet.
    std::optional<uint64_t> order_seed;
  };
  // What the running thread may know of itself.
  struct Thread {
    Dim3 index;
    Dim3 block;
    unsigned linear = 0;
    bool done = false;
    size_t shared_taken = 0;   // arrays
    size_t shared_offset = 0;  // bytes
    struct Copy {
      void* to;
      const void* from;
      size_t bytes, valid;
    };
    std::vector<Copy> open_copies;
    std::vector<std::vector<Copy>> copies;  // committed groups, oldest first
  };

  // The only one, for whoever runs the machine's work, a thread at a time: with one for each thread of the host their
  // fibers would be too many for ThreadSanitizer.
  static BlockRunner& OfTheMachine();

  // Empty, or what went wrong; the rest of the grid then did not run.
  std::string Run(const Launch& launch);

  // Called by the running thread of a block.
  const Thread& thread() const { return threads_[current_]; }
  const Launch& launch() const { return *launch_; }
  void BlockBarrier(int line);
  void WarpBarrier();
  // Publishes `words` to the warp and returns what each lane published, [lane][kExchangeWords]; valid until the lane's
  // next exchange.
  const uint32_t (*Exchange(const uint32_t* words, size_t count))[kExchangeWords];
  void* TakeShared(size_t bytes);
  // Ends the launch unless `address` is a multiple of `bytes`, as a device would.
  void CheckAligned(const void* address, size_t bytes, const char* what);
  void CopyAsync(void* to, const void* from, size_t bytes, size_t valid);
  void CommitCopies();
  // Until at most `newest` committed groups are not there yet.
  void WaitCopies(size_t newest);

 private:
  struct Warp {
    unsigned waiting = 0;
    uint32_t exchange[2][kWarpSize][kExchangeWords];
    std::array<unsigned, kWarpSize> parity;
  };
  struct SharedArray {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes;
  };

  static void FiberMain(void* self);
  void RunBlock();
  void MakeReady(unsigned thread) { ready_.push_back(thread); }
  // Leaves the running thread until it is picked again.
  void SwitchAway();
  unsigned Pick();
  // Ends the launch: "thread (x, y, z) of block (x, y, z)", then the parts.
  template <typename... Parts>
  [[noreturn]] void Fail(const Parts&... parts);

  Fiber* main_ = nullptr;  // of the calling thread
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<SharedArray> shared_;
  std::vector<unsigned> ready_;
  std::vector<unsigned> warp_ranks_;  // which goes first
  size_t ready_head_ = 0;
  const Launch* launch_ = nullptr;
  Dim3 block_index_;
  unsigned current_ = 0;
  unsigned done_ = 0;
  unsigned at_barrier_ = 0;
  int barrier_line_ = 0;
  std::mt19937_64 order_;
  std::string error_;
};

}  // namespace baton::stand_in
