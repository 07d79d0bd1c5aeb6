#include "common/handoff/sender.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/base/start_thread.h"
#include "common/base/status.h"
#include "common/handoff/event_loop.h"
#include "common/handoff/target_link.h"

namespace baton {
namespace {

// More targets than any deployment has decode workers: each costs a thread.
constexpr size_t kMaxTargets = 1024;
// Keeps every commit well inside a control frame.
constexpr size_t kMaxLeaseBlocks = 1u << 20;

// The handoff of an offer that was refused at once.
class RefusedHandoff final : public OutgoingHandoff {
 public:
  void PushBlocks(uint32_t, std::span<const BlockId>) override {}
  void Commit(uint32_t, std::vector<FirstToken>) override {}
  void Abort(std::string) override {}
};

class Sender final : public HandoffSender {
 public:
  explicit Sender(LinkContext context) : context_(std::move(context)) {}

  ~Sender() override {
    absl::flat_hash_map<Incarnation, std::unique_ptr<TargetLink>> links;
    {
      absl::MutexLock lock(&mutex_);
      links.swap(links_);
    }
  }

  std::shared_ptr<OutgoingHandoff> Begin(const LeaseOffer& offer,
                                         std::function<void(const HandoffResult&)> on_done) override {
    const absl::StatusOr<TargetDescriptor> target = DecodeTargetDescriptor(offer.target);
    absl::Status usable = target.ok() ? CheckOffer(offer, *target) : target.status();
    if (usable.ok()) {
      absl::MutexLock lock(&mutex_);
      std::unique_ptr<TargetLink>& link = links_[target->incarnation];
      if (link == nullptr) usable = MakeLink(*target, link);
      if (usable.ok()) return link->Begin(offer, std::move(on_done), loop_.queue());
      links_.erase(target->incarnation);
    }
    HandoffResult result;
    result.outcome =
        usable.code() == absl::StatusCode::kFailedPrecondition ? HandoffOutcome::kRefused : HandoffOutcome::kFailed;
    result.reason = StatusMessage(usable);
    loop_.queue()->Post([on_done = std::move(on_done), result] { on_done(result); });
    return std::make_shared<RefusedHandoff>();
  }

 private:
  absl::Status MakeLink(const TargetDescriptor& target, std::unique_ptr<TargetLink>& link)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (links_.size() > kMaxTargets) {  // this one counted
      return ResourceExhausted("this worker is connected to %d decode workers already", links_.size() - 1);
    }
    BATON_ASSIGN_OR_RETURN(link, StartThread([&] {
                             return std::make_unique<TargetLink>(&context_, target,
                                                                 [this] { loop_.queue()->Post([this] { Sweep(); }); });
                           }));
    return absl::OkStatus();
  }

  absl::Status CheckOffer(const LeaseOffer& offer, const TargetDescriptor& target) const {
    if (target.layout_hash != context_.self.layout_hash) {
      return FailedPrecondition("layout hash %016x of the decode worker, %016x here", target.layout_hash.value,
                                context_.self.layout_hash.value);
    }
    if (target.numerics_hash != context_.self.numerics_hash &&
        !(target.allow_mixed_numerics && context_.self.allow_mixed_numerics)) {
      return FailedPrecondition(
          "numerics hash %016x of the decode worker, %016x here, and they do not both allow mixed numerics",
          target.numerics_hash.value, context_.self.numerics_hash.value);
    }
    if (target.transport != context_.transport->name()) {
      return FailedPrecondition("transport %s of the decode worker, %s here", target.transport,
                                context_.transport->name());
    }
    if (offer.blocks.empty() || offer.blocks.size() > kMaxLeaseBlocks || offer.first_block > kMaxLeaseBlocks) {
      return InvalidArgument("lease of %d blocks from prompt block %d", offer.blocks.size(), offer.first_block);
    }
    return absl::OkStatus();
  }

  // Ends links that have neither a handoff nor a connection.
  void Sweep() {
    std::vector<std::unique_ptr<TargetLink>> ended;
    absl::MutexLock lock(&mutex_);
    for (auto it = links_.begin(); it != links_.end();) {
      const auto link = it++;
      if (!link->second->idle()) continue;
      ended.push_back(std::move(link->second));
      links_.erase(link);
    }
  }

  const LinkContext context_;
  absl::Mutex mutex_;
  absl::flat_hash_map<Incarnation, std::unique_ptr<TargetLink>> links_ ABSL_GUARDED_BY(mutex_);
  EventLoop loop_;  // reports what no link can, and ends links; last: its thread uses the rest
};

}  // namespace

std::unique_ptr<HandoffSender> HandoffSender::Create(const ControlOptions& options, std::string name,
                                                     NumericsHash numerics, Incarnation self, PoolMemory* memory,
                                                     KvTransport* transport, const Clock* clock) {
  LinkContext context;
  context.transfer = TransferContext{memory, clock};
  context.control = options;
  context.self.incarnation = self;
  context.self.layout_hash = memory->layout().Hash();
  context.self.numerics_hash = numerics;
  context.self.name = std::move(name);
  context.self.host_id = LocalHostId();
  context.self.allow_mixed_numerics = options.allow_mixed_numerics;
  context.transport = transport;
  return std::make_unique<Sender>(std::move(context));
}

}  // namespace baton
