// Bandwidth of puts between two transports of this process: transport_bench [MIB], every lane that this build has.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>

#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "tests/contract/test_gate.h"
#include "tests/contract/transport_modes.h"

namespace baton {
namespace {

constexpr WriteStamp kStamp{LeaseId{1}, 1};
constexpr uint64_t kBlockBytes = 196'608;  // a block of Qwen2.5-0.5B at 16 bit
constexpr int kRounds = 8;

absl::Status Flush(KvSession& session) {
  absl::Notification flushed;
  absl::Status result;
  session.Flush([&](const absl::Status& status) {
    result = status;
    flushed.Notify();
  });
  flushed.WaitForNotification();
  return result;
}

// Blocks to scattered places, as a handoff puts them when nothing coalesces.
absl::Status Measure(const TransportMode& mode, uint64_t pool_bytes) {
  TestGate gate;
  gate.Open(kStamp.lease);
  const auto network = std::make_shared<LocalNetwork>();
  BATON_ASSIGN_OR_RETURN(const auto target, MakeTransport(mode.Options(network)));
  target->SetWriteGate(&gate);
  BATON_RETURN_IF_ERROR(target->AllocatePool(pool_bytes).status());
  BATON_ASSIGN_OR_RETURN(const auto writer, MakeTransport(mode.Options(network)));
  BATON_ASSIGN_OR_RETURN(const std::span<std::byte> source, writer->AllocatePool(pool_bytes));
  BATON_ASSIGN_OR_RETURN(const std::string descriptor, target->Describe());
  BATON_ASSIGN_OR_RETURN(const auto session, writer->Connect(descriptor));
  const uint64_t blocks = pool_bytes / kBlockBytes;
  std::vector<PutRun> runs;
  for (uint64_t i = 0; i < blocks; ++i)
    runs.push_back({source.data() + i * kBlockBytes, (i * 7 % blocks) * kBlockBytes, kBlockBytes});
  BATON_RETURN_IF_ERROR(session->Put(kStamp, runs));  // first touch
  BATON_RETURN_IF_ERROR(Flush(*session));
  const TimePoint start = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) BATON_RETURN_IF_ERROR(session->Put(kStamp, runs));
  BATON_RETURN_IF_ERROR(Flush(*session));
  const double seconds = Seconds(std::chrono::steady_clock::now() - start);
  std::printf("%-26s lane %-6s %6.2f GB/s\n", mode.label.c_str(), std::string(session->lane()).c_str(),
              static_cast<double>(blocks * kBlockBytes) * kRounds / seconds / 1e9);
  return absl::OkStatus();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  const uint64_t mib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64;
  for (const baton::TransportMode& mode : baton::AllTransportModes()) {
    const absl::Status status = baton::Measure(mode, mib << 20);
    if (!status.ok()) std::printf("%-26s %s\n", mode.label.c_str(), baton::StatusMessage(status).c_str());
  }
}
