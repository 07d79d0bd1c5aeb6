#pragma once

// What a CUDA device could do at best, as far as the CUDA engine could ask it to.

#include "absl/status/statusor.h"
#include "common/base/dtype.h"
#include "common/engine/engine_peak.h"

namespace baton {

// Of the calling thread's device, in some tens of milliseconds. Operations: cuBLASLt's product of large square matrices
// of `dtype`. Bytes: a copy within the device, read and written. Takes up to 1 GiB for as long as it runs, and less
// where that is not free.
absl::StatusOr<EnginePeak> ProbeCudaPeak(DType dtype);

}  // namespace baton
