#pragma once

// One function a bench, each in the file of its name; catalogue.cc lists them.

#include "absl/status/statusor.h"
#include "services/cli/bench/bench.h"

namespace baton::cli {

// In this process.
absl::StatusOr<BenchReport> RunBatching(BenchContext& context);
absl::StatusOr<BenchReport> RunChunked(BenchContext& context);
absl::StatusOr<BenchReport> RunEngine(BenchContext& context);
absl::StatusOr<BenchReport> RunKvCache(BenchContext& context);
absl::StatusOr<BenchReport> RunPaging(BenchContext& context);
absl::StatusOr<BenchReport> RunPrefix(BenchContext& context);

// Against a router, or processes of their own.
absl::StatusOr<BenchReport> RunDisagg(BenchContext& context);
absl::StatusOr<BenchReport> RunHandoff(BenchContext& context);
absl::StatusOr<BenchReport> RunLoad(BenchContext& context);
absl::StatusOr<BenchReport> RunStreaming(BenchContext& context);

}  // namespace baton::cli
