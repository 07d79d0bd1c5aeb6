#include <algorithm>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/transport/catalogue.h"

namespace baton {
namespace {

constexpr uint64_t kPieceBytes = 8 << 20;
constexpr int kRounds = 8;

absl::Status PutAndFlush(KvSession& session, const PutRun& run, int rounds) {
  for (int round = 0; round < rounds; ++round) BATON_RETURN_IF_ERROR(session.Put({}, {&run, 1}));
  absl::Notification flushed;
  absl::Status result;
  session.Flush([&](const absl::Status& status) {
    result = status;
    flushed.Notify();
  });
  flushed.WaitForNotification();
  return result;
}

}  // namespace

absl::StatusOr<double> ProbeBandwidth(KvTransport& transport, uint64_t pool_bytes) {
  BATON_ASSIGN_OR_RETURN(const std::string descriptor, transport.Describe());
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<KvSession> session, transport.Connect(descriptor));
  const std::vector<std::byte> zeros(std::min(kPieceBytes, pool_bytes));
  const PutRun run{zeros.data(), 0, zeros.size()};
  BATON_RETURN_IF_ERROR(PutAndFlush(*session, run, 1));  // first touch of both sides is not what is measured
  const TimePoint start = std::chrono::steady_clock::now();
  BATON_RETURN_IF_ERROR(PutAndFlush(*session, run, kRounds));
  const double seconds = Seconds(std::chrono::steady_clock::now() - start);
  return static_cast<double>(zeros.size()) * kRounds / seconds;
}

}  // namespace baton
