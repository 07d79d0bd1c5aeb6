#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/status.h"
#include "kernels/cuda/gemm.h"
#include "tests/gpu/measures.h"
#include "tests/gpu/read_memory.h"

namespace baton {
namespace {

using device::Memory;
using device::MemoryKind;

absl::StatusOr<double> ReadRate(const device::DeviceInfo& info, const device::Stream& stream,
                                const CeilingSizes& sizes) {
  BATON_ASSIGN_OR_RETURN(const Memory memory, Memory::Allocate(MemoryKind::kDevice, sizes.bytes));
  BATON_ASSIGN_OR_RETURN(const Memory sink, Memory::Allocate(MemoryKind::kDevice, sizeof(uint32_t)));
  BATON_RETURN_IF_ERROR(stream.Fill(memory.data(), 1, sizes.bytes));
  BATON_ASSIGN_OR_RETURN(const double seconds, SecondsOf(stream, sizes.rounds, [&] {
                           const cuda::Error error =
                               ReadMemory(memory.data(), static_cast<int64_t>(sizes.bytes), info.multiprocessors,
                                          sink.as<uint32_t>(), stream.get());
                           return device::ToStatus(static_cast<int>(error), "reading memory");
                         }));
  return static_cast<double>(sizes.bytes) / seconds;
}

absl::StatusOr<double> CopyRate(const device::Stream& stream, const CeilingSizes& sizes) {
  BATON_ASSIGN_OR_RETURN(const Memory from, Memory::Allocate(MemoryKind::kDevice, sizes.bytes));
  BATON_ASSIGN_OR_RETURN(const Memory to, Memory::Allocate(MemoryKind::kDevice, sizes.bytes));
  BATON_RETURN_IF_ERROR(stream.Fill(from.data(), 1, sizes.bytes));
  BATON_ASSIGN_OR_RETURN(const double seconds, SecondsOf(stream, sizes.rounds, [&] {
                           return stream.Copy(to.data(), from.data(), sizes.bytes);
                         }));
  return 2 * static_cast<double>(sizes.bytes) / seconds;  // read and written
}

absl::StatusOr<double> ProductRate(const device::Stream& stream, const CeilingSizes& sizes) {
  const uint64_t bytes = static_cast<uint64_t>(sizes.product) * static_cast<uint64_t>(sizes.product) * 2;
  BATON_ASSIGN_OR_RETURN(const Memory x, Memory::Allocate(MemoryKind::kDevice, bytes));
  BATON_ASSIGN_OR_RETURN(const Memory w, Memory::Allocate(MemoryKind::kDevice, bytes));
  BATON_ASSIGN_OR_RETURN(const Memory y, Memory::Allocate(MemoryKind::kDevice, bytes));
  BATON_ASSIGN_OR_RETURN(const Memory workspace, Memory::Allocate(MemoryKind::kDevice, cuda::Gemm::kWorkspaceBytes));
  // Random numbers: a product of zeros draws less power and runs faster.
  BATON_RETURN_IF_ERROR(FillRandom(stream, x));
  BATON_RETURN_IF_ERROR(FillRandom(stream, w));
  std::unique_ptr<cuda::Gemm> gemm;
  BATON_RETURN_IF_ERROR(
      device::ToStatus(static_cast<int>(cuda::Gemm::Create(workspace.data(), false, gemm)), "starting cuBLASLt"));
  BATON_ASSIGN_OR_RETURN(const double seconds, SecondsOf(stream, sizes.rounds, [&] {
                           const cuda::Error error =
                               gemm->Run(DType::kBF16, x.data(), w.data(), sizes.product, sizes.product, sizes.product,
                                         DType::kBF16, y.data(), stream.get());
                           return device::ToStatus(static_cast<int>(error), "enqueueing a matrix product");
                         }));
  const auto n = static_cast<double>(sizes.product);
  return 2 * n * n * n / seconds;
}

}  // namespace

absl::Status CheckDevice() {
  BATON_ASSIGN_OR_RETURN(const device::DeviceInfo info, device::Open(0));
  BATON_ASSIGN_OR_RETURN(const device::Stream stream, device::Stream::Create());
  const CeilingSizes small{.bytes = 4096, .rounds = {.rounds = 1, .seconds = 0}};
  const absl::Status ran = ReadRate(info, stream, small).status();
  if (!ran.ok()) {
    return WithContext(ran, absl::StrFormat("%s, sm_%d, does not run these programs, which were built for one "
                                            "architecture",
                                            info.name, info.compute_capability));
  }
  if (!cuda::Gemm::LibraryFound()) return FailedPrecondition("cuBLASLt's shared library was not found");
  return absl::OkStatus();
}

absl::Status MeasureCeilings(const CeilingSizes& sizes, Records& records) {
  BATON_ASSIGN_OR_RETURN(const device::DeviceInfo info, device::Open(0));
  BATON_ASSIGN_OR_RETURN(const device::Stream stream, device::Stream::Create());
  BATON_RETURN_IF_ERROR(records.Write({{"measure", "device"},
                                       {"name", info.name},
                                       {"compute_capability", info.compute_capability},
                                       {"multiprocessors", info.multiprocessors},
                                       {"bytes", info.total_bytes}}));
  CeilingSizes fitting = sizes;
  fitting.bytes = std::min(sizes.bytes, info.free_bytes / 4 / 16 * 16);
  BATON_ASSIGN_OR_RETURN(const double read, ReadRate(info, stream, fitting));
  BATON_ASSIGN_OR_RETURN(const double copied, CopyRate(stream, fitting));
  BATON_RETURN_IF_ERROR(
      records.Write({{"measure", "bandwidth"}, {"read_bytes_per_second", read}, {"copy_bytes_per_second", copied}}));
  BATON_ASSIGN_OR_RETURN(const double flops, ProductRate(stream, sizes));
  return records.Write({{"measure", "product"}, {"size", sizes.product}, {"flops_per_second", flops}});
}

}  // namespace baton
