#pragma once

// Sampling on the device: from the rows of logits that a step left there to tokens on the host.
//
// What penalties must know of a choice's tokens, a word for every token of the vocabulary, lies on the device in as
// many histories as a step has sequences: it is sent when a choice is sampled for the first time or has lost its
// history to others, and kept by the kernel from then on. So a step sends a few numbers for each choice and reads its
// token back.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/engine/runner.h"
#include "kernels/cuda/sampling.h"

namespace baton {

// Of one stream, on the device that was the calling thread's when it was made. Not thread-safe.
class CudaSampler {
 public:
  // For `at_once` choices in one launch. RESOURCE_EXHAUSTED when there is no memory for that.
  static absl::StatusOr<std::unique_ptr<CudaSampler>> Create(uint32_t vocab, uint32_t at_once);

  // Device memory that such a one takes.
  static uint64_t DeviceBytes(uint32_t vocab, uint32_t at_once);

  // Enqueues the sampling of all choices of `batch` behind what computes `logits`: rows of [vocab] in device memory,
  // one for each sequence that needs logits, in order. Returns without waiting, but where there are more choices than
  // at_once, or a great many of their tokens to send: then `wait`, which returns once the stream has run, is called in
  // between. Allocates nothing.
  absl::Status Enqueue(std::span<const StepSequence> batch, const float* logits, const device::Stream& stream,
                       const std::function<absl::Status()>& wait);

  // Once the stream has got there: gives choices their tokens and tells their samplers. Allocates log-probabilities,
  // and what samplers grow by.
  void Finish();

 private:
  // Written on the host, copied to the device.
  template <typename T>
  struct Input {
    device::Memory host, device;
    size_t used = 0;

    absl::Status Allocate(size_t count);
    size_t room() const { return host.size() / sizeof(T) - used; }
    void Add(const T& value) { host.as<T>()[used++] = value; }
    absl::Status Send(const device::Stream& stream) const;
  };
  // The other way.
  template <typename T>
  struct Output {
    device::Memory host, device;
    absl::Status Allocate(size_t count);
    absl::Status Read(size_t count, const device::Stream& stream) const;
  };
  // Elements of the arrays.
  struct Counts {
    size_t rows, biases, masked, seen, tops, words;
  };
  static Counts CountsFor(uint32_t vocab, uint32_t at_once);
  struct History {
    std::weak_ptr<const void> owner;  // a sampler's identity
    const void* key = nullptr;        // its address, under which it is found
    uint32_t generated = 0;           // tokens of the choice that it knows
    uint64_t used = 0;                // the launch that used it last
  };
  struct Pending {
    StepSample* sample;
    int32_t history;
  };

  explicit CudaSampler(uint32_t vocab) : vocab_(vocab) {}
  absl::Status Allocate(uint32_t at_once);
  bool HasRoomFor(const Sampler& sampler) const;
  void Add(StepSample& sample, int32_t logits_row);
  int32_t HistoryFor(const Sampler& sampler);
  int32_t LeastNeededHistory() const;
  absl::Status Launch(const float* logits, const device::Stream& stream);
  void Clear();

  const uint32_t vocab_;
  Input<cuda::SampleRow> rows_;
  Input<cuda::LogitBias> biases_;
  Input<TokenId> masked_;
  Input<cuda::HistoryStart> starts_;
  Input<cuda::SeenToken> seen_;
  Output<cuda::SampledRow> results_;
  Output<cuda::TopToken> tops_;
  device::Memory scratch_;    // [at_once, vocab] f32
  device::Memory histories_;  // [at_once, vocab] words

  std::vector<Pending> pending_;  // of the launch in progress, in the order of its rows
  bool wants_tops_ = false;
  uint64_t launch_ = 0;
  std::vector<History> of_history_;
  absl::flat_hash_map<const void*, int32_t> history_of_;
};

}  // namespace baton
