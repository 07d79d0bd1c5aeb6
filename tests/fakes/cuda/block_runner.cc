#include "tests/fakes/cuda/block_runner.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <numeric>
#include <utility>

namespace baton::stand_in {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = size_t{256} << 10;
#else
constexpr size_t kStackBytes = size_t{64} << 10;
#endif
constexpr size_t kSharedAlignment = 16;

std::string Text(const Dim3& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

void AppendText(const Dim3& index, std::string& to) { to += Text(index); }
void AppendText(const char* text, std::string& to) { to += text; }
template <std::integral Number>
void AppendText(Number number, std::string& to) {
  to += std::to_string(number);
}

Dim3 IndexOf(size_t linear, const Dim3& extent) {
  return {static_cast<unsigned>(linear % extent.x), static_cast<unsigned>(linear / extent.x % extent.y),
          static_cast<unsigned>(linear / extent.x / extent.y)};
}

void Apply(const std::vector<BlockRunner::Thread::Copy>& copies) {
  for (const auto& copy : copies) {
    std::memcpy(copy.to, copy.from, copy.valid);
    std::memset(static_cast<std::byte*>(copy.to) + copy.valid, 0, copy.bytes - copy.valid);
  }
}

}  // namespace

BlockRunner& BlockRunner::OfTheMachine() {
  static BlockRunner runner;
  return runner;
}

std::string BlockRunner::Run(const Launch& launch) {
  const size_t threads = launch.block.count();
  if (threads == 0 || threads > 1024 || threads % kWarpSize != 0) {
    return "a block of " + std::to_string(threads) + " threads; whole warps, at most 1024, are taken";
  }
  if (launch.grid.count() == 0 || launch.grid.y > 65535 || launch.grid.z > 65535) {
    return "a grid of " + Text(launch.grid) + " blocks; at least one, at most 65535 in y and z, are taken";
  }
  if (launch.shared_bytes > size_t{227} << 10) {
    return std::to_string(launch.shared_bytes) + " bytes of shared memory; a block may have 227 KiB";
  }
  while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>(FiberMain, this, kStackBytes));
  thread_local Fiber main;
  main_ = &main;
  launch_ = &launch;
  error_.clear();
  shared_.clear();
  std::vector<size_t> blocks(launch.grid.count());
  std::iota(blocks.begin(), blocks.end(), size_t{0});
  if (launch.order_seed) {
    order_.seed(*launch.order_seed);
    std::shuffle(blocks.begin(), blocks.end(), order_);
  }
  for (const size_t block : blocks) {
    block_index_ = IndexOf(block, launch.grid);
    RunBlock();
    if (!error_.empty()) break;
  }
  launch_ = nullptr;
  return error_;
}

void BlockRunner::RunBlock() {
  const size_t threads = launch_->block.count();
  threads_.assign(threads, {});
  warps_.assign(threads / kWarpSize, {});
  for (Warp& warp : warps_) warp.parity.fill(0);
  for (const SharedArray& array : shared_) std::memset(array.memory.get(), 0xff, array.bytes);
  ready_.clear();
  ready_head_ = done_ = at_barrier_ = 0;
  for (unsigned i = 0; i < threads; ++i) {
    threads_[i].linear = i;
    threads_[i].index = IndexOf(i, launch_->block);
    threads_[i].block = block_index_;
    MakeReady(i);
  }
  if (launch_->order_seed) {
    warp_ranks_.resize(warps_.size());
    std::iota(warp_ranks_.begin(), warp_ranks_.end(), 0u);
    std::shuffle(warp_ranks_.begin(), warp_ranks_.end(), order_);
  }
  current_ = Pick();
  main_->SwitchTo(*fibers_[current_]);
  if (error_.empty()) return;
  for (unsigned i = 0; i < threads; ++i) fibers_[i]->Restart();
}

void BlockRunner::FiberMain(void* self) {
  BlockRunner& runner = *static_cast<BlockRunner*>(self);
  while (true) {
    runner.launch_->kernel();
    Thread& thread = runner.threads_[runner.current_];
    thread.done = true;
    ++runner.done_;
    if (runner.at_barrier_ > 0) {
      runner.Fail(" ended while ", runner.at_barrier_, " threads wait at the block barrier in line ",
                  runner.barrier_line_);
    }
    if (runner.warps_[thread.linear / kWarpSize].waiting > 0) {
      runner.Fail(" ended while lanes of its warp wait for it");
    }
    runner.SwitchAway();
  }
}

unsigned BlockRunner::Pick() {
  if (launch_->order_seed && *launch_->order_seed % 2 == 0) {
    size_t best = ready_head_;
    uint64_t alike = 0;  // ready threads of that warp, any of which may be next
    for (size_t i = ready_head_; i < ready_.size(); ++i) {
      const unsigned rank = warp_ranks_[ready_[i] / kWarpSize], of_best = warp_ranks_[ready_[best] / kWarpSize];
      if (rank < of_best) alike = 0;
      if (rank <= of_best && order_() % ++alike == 0) best = i;
    }
    std::swap(ready_[ready_head_], ready_[best]);
  } else if (launch_->order_seed) {
    std::swap(ready_[ready_head_], ready_[ready_head_ + order_() % (ready_.size() - ready_head_)]);
  }
  const unsigned picked = ready_[ready_head_++];
  if (ready_head_ == ready_.size()) {
    ready_.clear();
    ready_head_ = 0;
  }
  return picked;
}

void BlockRunner::SwitchAway() {
  const unsigned from = current_;
  if (ready_.empty()) {
    if (done_ < threads_.size()) {
      Fail(" is the last that could run, the rest waits for ever: ", at_barrier_,
           " threads at the block barrier in line ", barrier_line_, ", the others for their warps");
    }
    fibers_[from]->SwitchTo(*main_);
    return;
  }
  current_ = Pick();
  if (current_ != from) fibers_[from]->SwitchTo(*fibers_[current_]);
}

// The text is put together in the runner's memory: what is on the stack of this fiber is never destroyed.
template <typename... Parts>
void BlockRunner::Fail(const Parts&... parts) {
  error_ = "thread ";
  AppendText(threads_[current_].index, error_);
  error_ += " of block ";
  AppendText(block_index_, error_);
  (AppendText(parts, error_), ...);
  fibers_[current_]->SwitchTo(*main_);
  __builtin_trap();  // Restart() forgets this place
}

void BlockRunner::BlockBarrier(int line) {
  if (done_ > 0) {
    Fail(" waits at the block barrier in line ", line, ", ", done_, " threads have ended");
  }
  if (at_barrier_ > 0 && barrier_line_ != line) {
    Fail(" waits at the block barrier in line ", line, ", others in line ", barrier_line_);
  }
  barrier_line_ = line;
  if (++at_barrier_ == threads_.size()) {
    at_barrier_ = 0;
    for (const Thread& thread : threads_) MakeReady(thread.linear);
  }
  SwitchAway();
}

void BlockRunner::WarpBarrier() {
  const unsigned first = current_ / kWarpSize * kWarpSize;
  for (unsigned lane = first; lane < first + kWarpSize; ++lane) {
    if (threads_[lane].done) Fail(" waits for its warp, of which lane ", lane - first, " has ended");
  }
  Warp& warp = warps_[first / kWarpSize];
  if (++warp.waiting == kWarpSize) {
    warp.waiting = 0;
    for (unsigned lane = first; lane < first + kWarpSize; ++lane) MakeReady(lane);
  }
  SwitchAway();
}

const uint32_t (*BlockRunner::Exchange(const uint32_t* words, size_t count))[kExchangeWords] {
  Warp& warp = warps_[current_ / kWarpSize];
  const unsigned lane = current_ % kWarpSize;
  // Two sets in turn: a fast lane may publish its next words while a slow one still reads these.
  auto& exchange = warp.exchange[warp.parity[lane] ^= 1];
  std::memcpy(exchange[lane], words, count * sizeof(uint32_t));
  WarpBarrier();
  return exchange;
}

void* BlockRunner::TakeShared(size_t bytes) {
  Thread& thread = threads_[current_];
  const size_t index = thread.shared_taken++;
  thread.shared_offset += (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
  if (thread.shared_offset > launch_->shared_bytes) {
    Fail(" takes ", thread.shared_offset, " bytes of shared memory, the launch asked for ", launch_->shared_bytes);
  }
  if (index == shared_.size()) {
    shared_.push_back({std::make_unique<std::byte[]>(bytes), bytes});
    std::memset(shared_.back().memory.get(), 0xff, bytes);
  }
  if (shared_[index].bytes != bytes) {
    Fail(" takes a shared array of ", bytes, " bytes, others of ", shared_[index].bytes);
  }
  return shared_[index].memory.get();
}

void BlockRunner::CheckAligned(const void* address, size_t bytes, const char* what) {
  const size_t beyond = reinterpret_cast<uintptr_t>(address) % bytes;
  if (beyond != 0) Fail(" ", what, " ", beyond, " bytes beyond a multiple of ", bytes);
}

void BlockRunner::CopyAsync(void* to, const void* from, size_t bytes, size_t valid) {
  CheckAligned(to, bytes, "copies to");
  if (valid > 0) CheckAligned(from, bytes, "copies from");
  threads_[current_].open_copies.push_back({to, from, bytes, valid});
}

void BlockRunner::CommitCopies() {
  Thread& thread = threads_[current_];
  thread.copies.push_back(std::exchange(thread.open_copies, {}));
}

void BlockRunner::WaitCopies(size_t newest) {
  Thread& thread = threads_[current_];
  for (; thread.copies.size() > newest; thread.copies.erase(thread.copies.begin())) Apply(thread.copies.front());
}

}  // namespace baton::stand_in
