#include "common/engine/cuda_peak.h"

#include <algorithm>
#include <memory>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/engine/cuda_status.h"
#include "kernels/cuda/gemm.h"

namespace baton {
namespace {

using device::Memory;
using device::MemoryKind;

constexpr double kLongEnough = 0.002;  // seconds: launching and waiting do not count any more
constexpr int kTries = 3;
constexpr int64_t kFirstSide = 128, kLastSide = 8192;
constexpr uint8_t kSmallNumber = 0x3c;  // of all bytes: some hundredths as bf16 and f32, about 1 as f16
constexpr uint64_t kFirstBytes = 1 << 20, kLastBytes = uint64_t{512} << 20;

// Seconds of the fastest try.
template <typename Enqueue>
absl::StatusOr<double> Fastest(const device::Stream& stream, const Enqueue& enqueue) {
  const SteadyClock clock;
  double fastest = 0;
  for (int i = 0; i <= kTries; ++i) {
    const TimePoint start = clock.Now();
    BATON_RETURN_IF_ERROR(enqueue());
    BATON_RETURN_IF_ERROR(stream.Synchronize());
    const double seconds = std::max(1e-9, Seconds(clock.Now() - start));
    // The first one chooses an algorithm, and loads it.
    if (i > 0) fastest = i == 1 ? seconds : std::min(fastest, seconds);
  }
  return fastest;
}

absl::StatusOr<Memory> Filled(const device::Stream& stream, uint64_t bytes) {
  BATON_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(MemoryKind::kDevice, bytes));
  BATON_RETURN_IF_ERROR(stream.Fill(memory.data(), kSmallNumber, bytes));
  return memory;
}

absl::StatusOr<double> SecondsOfProduct(const device::Stream& stream, cuda::Gemm& gemm, DType dtype, int64_t side) {
  const uint64_t bytes = static_cast<uint64_t>(side) * BytesOf(dtype, static_cast<uint64_t>(side));
  BATON_ASSIGN_OR_RETURN(const Memory x, Filled(stream, bytes));
  BATON_ASSIGN_OR_RETURN(const Memory w, Filled(stream, bytes));
  BATON_ASSIGN_OR_RETURN(const Memory y, Filled(stream, bytes));
  return Fastest(stream, [&] {
    return Enqueued(gemm.Run(dtype, x.data(), w.data(), side, side, side, dtype, y.data(), stream.get()),
                    "enqueueing a matrix product");
  });
}

absl::StatusOr<double> SecondsOfCopy(const device::Stream& stream, uint64_t bytes) {
  BATON_ASSIGN_OR_RETURN(const Memory from, Filled(stream, bytes));
  BATON_ASSIGN_OR_RETURN(const Memory to, Filled(stream, bytes));
  return Fastest(stream, [&] { return stream.Copy(to.data(), from.data(), bytes); });
}

// Grows what is measured until it takes long enough or memory is short; the last rate.
template <typename Size, typename Measure>
absl::StatusOr<double> Rate(Size first, Size last, Size factor, const Measure& seconds_of, double (*amount_of)(Size)) {
  double rate = 0;
  for (Size size = first; size <= last; size *= factor) {
    const absl::StatusOr<double> seconds = seconds_of(size);
    if (absl::IsResourceExhausted(seconds.status())) break;
    BATON_RETURN_IF_ERROR(seconds.status());
    rate = amount_of(size) / *seconds;
    if (*seconds > kLongEnough) break;
  }
  return rate;
}

}  // namespace

absl::StatusOr<EnginePeak> ProbeCudaPeak(DType dtype) {
  BATON_ASSIGN_OR_RETURN(const device::Stream stream, device::Stream::Create());
  BATON_ASSIGN_OR_RETURN(const Memory workspace, Memory::Allocate(MemoryKind::kDevice, cuda::Gemm::kWorkspaceBytes));
  std::unique_ptr<cuda::Gemm> gemm;
  BATON_RETURN_IF_ERROR(Enqueued(cuda::Gemm::Create(workspace.data(), false, gemm), "starting cuBLASLt"));
  EnginePeak peak;
  BATON_ASSIGN_OR_RETURN(
      peak.flops_per_second,
      Rate<int64_t>(
          kFirstSide, kLastSide, 2, [&](int64_t side) { return SecondsOfProduct(stream, *gemm, dtype, side); },
          [](int64_t side) {
            const auto elements = static_cast<double>(side);
            return 2 * elements * elements * elements;
          }));
  BATON_ASSIGN_OR_RETURN(peak.bytes_per_second,
                         Rate<uint64_t>(
                             kFirstBytes, kLastBytes, 4, [&](uint64_t bytes) { return SecondsOfCopy(stream, bytes); },
                             [](uint64_t bytes) { return 2 * static_cast<double>(bytes); }));
  return peak;
}

}  // namespace baton
