#include "common/handoff/receiver.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/handoff/commit_verifier.h"
#include "common/handoff/lease_table.h"

namespace baton {
namespace {

// Duplicates of a commit that is being verified; a writer sends one a connection, so more is no honest peer.
constexpr size_t kMaxWaitingAnswers = 16;

class Receiver final : public HandoffReceiver, public ControlHandler, public WriteGate {
 public:
  Receiver(const ReceiverOptions& options, const LeaseLimits& limits, BlockPool* pool, PoolMemory* memory,
           KvTransport* transport, const Clock* clock)
      : options_(options),
        layout_(memory->layout()),
        max_lease_blocks_(limits.max_leased_blocks),
        memory_(memory),
        transport_(transport),
        // Often enough that a lease outlives its time by little, seldom enough to cost nothing.
        reap_interval_(absl::FromChrono(std::clamp<Duration>(options.lease_duration / 8, std::chrono::milliseconds(2),
                                                             std::chrono::milliseconds(100)))),
        table_(limits, pool, clock) {}

  ~Receiver() override {
    server_.reset();
    {
      absl::MutexLock lock(&mutex_);
      stop_ = true;
    }
    if (thread_.joinable()) thread_.join();
    transport_->SetWriteGate(nullptr);
  }

  absl::Status Listen(NumericsHash numerics, Incarnation self) {
    BATON_ASSIGN_OR_RETURN(std::string transport_descriptor, transport_->Describe());
    ControlHello hello;
    hello.incarnation = self;
    hello.layout_hash = layout_.Hash();
    hello.numerics_hash = numerics;
    hello.secret = RandomU64();
    hello.name = "baton-decode";
    hello.host_id = LocalHostId();
    hello.allow_mixed_numerics = options_.control.allow_mixed_numerics;
    thread_ = std::thread([this] { Loop(); });
    transport_->SetWriteGate(this);
    BATON_ASSIGN_OR_RETURN(
        server_, ControlServer::Start(options_.control_host, options_.control_port, hello, options_.control, this));
    TargetDescriptor target;
    target.incarnation = self;
    target.layout_hash = hello.layout_hash;
    target.numerics_hash = numerics;
    target.key_order = layout_.key_order;
    target.allow_mixed_numerics = hello.allow_mixed_numerics;
    target.secret = hello.secret;
    target.control_host = options_.advertise_host.empty() ? options_.control_host : options_.advertise_host;
    target.control_port = server_->port();
    target.transport = std::string(transport_->name());
    target.transport_descriptor = std::move(transport_descriptor);
    target_ = Encode(target);
    return absl::OkStatus();
  }

  absl::StatusOr<LeaseOffer> Reserve(ReserveRequest request) override {
    if (request.prompt_tokens == 0 || request.choices == 0) {
      return InvalidArgument("lease for %d prompt tokens and %d choices", request.prompt_tokens, request.choices);
    }
    // The block of the last prompt token is always written: its logits are the prefill worker's to compute.
    if (request.pinned_blocks > (request.prompt_tokens - 1) / layout_.block_size) {
      return InvalidArgument("%d pinned blocks of %d tokens leave nothing of %d prompt tokens to write",
                             request.pinned_blocks, layout_.block_size, request.prompt_tokens);
    }
    if (!request.on_end) return InvalidArgument("a lease needs on_end");
    const uint32_t prompt_blocks = layout_.BlocksFor(request.prompt_tokens) - request.pinned_blocks;
    Lease lease;
    {
      absl::MutexLock lock(&mutex_);
      BATON_ASSIGN_OR_RETURN(
          lease, table_.Reserve(request.prompt_tokens, prompt_blocks, request.choices, std::move(request.on_end)));
    }
    // Nobody knows the lease yet, so nothing can end it while its blocks are zeroed. Prompt blocks are written whole.
    // What earlier holders of the blocks enqueued is over then as well, so that nothing writes beside the writer.
    const absl::Status zeroed = memory_->Zero(lease.growth_blocks, 0, StepOrder::kBehind);
    absl::MutexLock lock(&mutex_);
    if (!zeroed.ok()) {
      table_.Withdraw(lease.key);
      return zeroed;
    }
    BATON_RETURN_IF_ERROR(table_.Renew(lease.key));
    return LeaseOffer{lease.key, request.pinned_blocks, std::move(lease.prompt_blocks), target_};
  }

  absl::Status Renew(const LeaseKey& key) override {
    absl::MutexLock lock(&mutex_);
    return table_.Renew(key);
  }

  void Cancel(const LeaseKey& key) override {
    absl::MutexLock lock(&mutex_);
    table_.Cancel(key);
  }

  absl::Status RelayFence(const FenceMessage& fence) override {
    absl::MutexLock lock(&mutex_);
    const AnswerMessage answer = table_.Fence(std::nullopt, fence);
    if (answer.answer == LeaseAnswer::kRefused) {
      return NotFound("lease %d: %s", fence.key.lease.value, answer.reason);
    }
    return absl::OkStatus();
  }

  HandoffCounts counts() const override {
    absl::MutexLock lock(&mutex_);
    return table_.counts();
  }
  uint32_t open_leases() const override {
    absl::MutexLock lock(&mutex_);
    return table_.open_leases();
  }
  uint32_t max_lease_blocks() const override { return max_lease_blocks_; }
  bool must_restart() const override {
    absl::MutexLock lock(&mutex_);
    return table_.must_restart();
  }

  // ControlHandler, on the server's thread.
  absl::Status OnHello(const ControlHello&) override { return absl::OkStatus(); }

  void OnPeerEvent(Incarnation peer, PeerEvent event) override {
    absl::MutexLock lock(&mutex_);
    table_.OnPeerEvent(peer, event);
  }

  void OnAttach(Incarnation peer, const AttachMessage& message, Answer answer) override {
    AnswerMessage reply;
    {
      absl::MutexLock lock(&mutex_);
      reply = table_.Attach(peer, message.key);
    }
    answer(std::move(reply));
  }

  void OnCommit(Incarnation peer, CommitMessage message, Answer answer) override {
    using Kind = LeaseTable::CommitStart::Kind;
    AnswerMessage reply;
    {
      absl::MutexLock lock(&mutex_);
      LeaseTable::CommitStart start = table_.BeginCommit(peer, message.key);
      if (start.kind == Kind::kVerify) {
        const LeaseId id = message.key.lease;
        commit_order_.push_back(id);
        commits_.emplace(id, PendingCommit{start.lease, std::move(message), {std::move(answer)}});
        return;
      }
      if (start.kind == Kind::kAlreadyVerifying) {
        std::vector<Answer>& waiting = commits_.at(message.key.lease).answers;
        if (waiting.size() < kMaxWaitingAnswers) {
          waiting.push_back(std::move(answer));
          return;
        }
        start.answer = AnswerMessage{message.key.lease, LeaseAnswer::kRefused, "too many duplicates of a commit"};
      }
      reply = std::move(start.answer);
    }
    answer(std::move(reply));
  }

  void OnFence(Incarnation peer, const FenceMessage& message, Answer answer) override {
    AnswerMessage reply;
    {
      absl::MutexLock lock(&mutex_);
      reply = table_.Fence(peer, message);
    }
    answer(std::move(reply));
  }

  // WriteGate, on a transport's thread.
  bool Admit(const WriteStamp& stamp, uint64_t offset, uint64_t bytes) override {
    absl::MutexLock lock(&mutex_);
    return table_.Admit(stamp, offset, bytes);
  }
  void Written(const WriteStamp& stamp, uint64_t, uint64_t) override {
    absl::MutexLock lock(&mutex_);
    table_.Written(stamp);
  }

 private:
  struct PendingCommit {
    const Lease* lease;  // stays while it is verified
    CommitMessage message;
    std::vector<Answer> answers;
  };

  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stop_ || table_.has_ends() || !commit_order_.empty();
  }

  // The verifier and reaper.
  void Loop() {
    mutex_.Lock();
    while (!stop_) {
      mutex_.AwaitWithTimeout(absl::Condition(this, &Receiver::HasWork), reap_interval_);
      table_.Reap();
      if (!commit_order_.empty() && !stop_) {
        VerifyOldest();
      }
      RunEnds();
    }
    for (; !commit_order_.empty(); commit_order_.pop_front()) commits_.erase(commit_order_.front());
    table_.EndAll(Unavailable("the decode worker shuts down"));
    RunEnds();
    mutex_.Unlock();
  }

  void VerifyOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const LeaseId id = commit_order_.front();
    commit_order_.pop_front();
    const PendingCommit& pending = commits_.at(id);
    const Lease* lease = pending.lease;
    CommitMessage message = pending.message;
    mutex_.Unlock();
    absl::Status verified = VerifyCommit(*lease, message, *memory_);
    const uint32_t used = (message.token_count - 1) % layout_.block_size + 1;
    if (verified.ok()) verified = memory_->Zero({&lease->prompt_blocks.back(), 1}, used, StepOrder::kBeside);
    mutex_.Lock();
    const AnswerMessage reply = table_.FinishCommit(id, verified, std::move(message.first_tokens));
    const std::vector<Answer> answers = std::move(commits_.at(id).answers);
    commits_.erase(id);
    RunEnds();  // the sequences run before the writer hears of it
    mutex_.Unlock();
    for (const Answer& answer : answers) answer(reply);
    mutex_.Lock();
  }

  void RunEnds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::vector<std::function<void()>> ends = table_.TakeEnds();
    mutex_.Unlock();
    for (const std::function<void()>& end : ends) end();
    mutex_.Lock();
  }

  const ReceiverOptions options_;
  const KvLayout layout_;
  const uint32_t max_lease_blocks_;
  PoolMemory* const memory_;
  KvTransport* const transport_;
  const absl::Duration reap_interval_;
  std::string target_;  // encoded TargetDescriptor; set before the first Reserve

  mutable absl::Mutex mutex_;
  LeaseTable table_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<LeaseId, PendingCommit> commits_ ABSL_GUARDED_BY(mutex_);
  std::deque<LeaseId> commit_order_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
  std::unique_ptr<ControlServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HandoffReceiver>> HandoffReceiver::Start(const ReceiverOptions& options,
                                                                        NumericsHash numerics, Incarnation self,
                                                                        BlockPool* pool, PoolMemory* memory,
                                                                        KvTransport* transport, const Clock* clock) {
  const KvLayout& layout = memory->layout();
  if (layout.BytesPerBlock() == 0) return InvalidArgument("KV layout with blocks of 0 bytes");
  if (memory->blocks() < pool->size()) {
    return InvalidArgument("%d KV blocks of %d bytes need more than the %d bytes of the pool", pool->size(),
                           layout.BytesPerBlock(), memory->bytes());
  }
  LeaseLimits limits;
  limits.duration = options.lease_duration;
  limits.tombstone_duration = options.tombstone_duration;
  limits.max_tombstones = options.max_tombstones;
  limits.max_leased_blocks = static_cast<uint32_t>(std::clamp(options.max_leased_share, 0.0, 1.0) * pool->size());
  limits.max_quarantined_blocks =
      static_cast<uint32_t>(std::clamp(options.max_quarantined_share, 0.0, 1.0) * pool->size());
  limits.block_bytes = layout.BytesPerBlock();
  auto receiver = std::make_unique<Receiver>(options, limits, pool, memory, transport, clock);
  BATON_RETURN_IF_ERROR(receiver->Listen(numerics, self));
  return receiver;
}

}  // namespace baton
