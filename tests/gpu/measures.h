#pragma once

// What gpu_bench measures; each writes a record as soon as it has one. Errors end a measure.

#include "absl/status/status.h"
#include "tests/gpu/bench_engine.h"
#include "tests/gpu/records.h"

namespace baton {

// Whether there is a device, kernels of this program run on it, and cuBLASLt is there.
absl::Status CheckDevice();

// Bytes a second from memory, and operations a second of a large bf16 product of cuBLASLt.
struct CeilingSizes {
  uint64_t bytes = uint64_t{4} << 30;
  int64_t product = 8192;  // rows, outputs and inputs
  Rounds rounds;
};
absl::Status MeasureCeilings(const CeilingSizes& sizes, Records& records);

// Decode steps of every batch size at the shape's context, as graphs and eager; and the attention in them.
absl::Status MeasureDecode(const BenchEngine& engine, Records& records);

// Steps that read a whole prompt; and the attention in them.
absl::Status MeasurePrefill(const BenchEngine& engine, Records& records);

// KV blocks that lie anywhere: into staging memory of the device and of the host, and back.
absl::Status MeasureBlocks(const BenchEngine& engine, Records& records);

}  // namespace baton
