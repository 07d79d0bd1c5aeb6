#pragma once

// The CUDA engine on a model of a real shape, with sequences of any length whose keys and values are random: decode
// steps at any depth need no prompt to be read first.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/device/device.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/engine/cuda_runner.h"
#include "common/engine/cuda_weights.h"
#include "common/kv/layout.h"
#include "kernels/cuda/paged_kv.h"
#include "tests/gpu/timing.h"

namespace baton {

struct BenchShape {
  std::string model = "qwen2.5-0.5b";  // of common/model/shapes.h
  std::vector<uint32_t> batches;       // of decode steps
  uint32_t context = 1024;             // positions that a sequence has before a decode step
  std::vector<uint32_t> lengths;       // of prompts
  Rounds rounds;
};

// Fills device memory with bf16 numbers between -1 and 1. Waits.
absl::Status FillRandom(const device::Stream& stream, const device::Memory& memory);

class BenchEngine {
 public:
  static absl::StatusOr<std::unique_ptr<BenchEngine>> Start(const BenchShape& shape);

  // A runner over the engine's weights and pool, for the batches and lengths of the shape.
  absl::StatusOr<std::unique_ptr<CudaRunner>> NewRunner(bool graphs, uint32_t max_step_tokens) const;

  // Tables of `sequences` that share no block, each for `length` positions.
  absl::StatusOr<std::vector<std::vector<BlockId>>> Tables(uint32_t sequences, uint32_t length) const;

  const BenchShape& shape() const { return shape_; }
  const device::DeviceInfo& device() const { return device_; }
  const device::Stream& stream() const { return stream_; }
  const CudaWeights& weights() const { return *weights_; }
  const KvLayout& layout() const { return layout_; }
  uint32_t blocks() const { return blocks_; }
  std::byte* pool() const { return pool_.data(); }
  cuda::PagedKv Kv(uint32_t layer) const;
  double load_seconds() const { return load_seconds_; }

 private:
  BenchShape shape_;
  device::DeviceInfo device_;
  device::Stream stream_;
  std::shared_ptr<const CudaWeights> weights_;
  KvLayout layout_;
  uint32_t blocks_ = 0;
  device::Memory pool_;
  double load_seconds_ = 0;
};

}  // namespace baton
