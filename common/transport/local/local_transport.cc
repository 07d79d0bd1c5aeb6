#include "common/transport/local/local_transport.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/transport/put_runs.h"

namespace baton {
namespace {

constexpr uint64_t kMaxPieceBytes = 1 << 20;  // the target's lock is held for one piece at a time

}  // namespace

// One transport's pool. Sessions share it, so that a put under way never sees its memory go.
class LocalPool {
 public:
  explicit LocalPool(std::span<std::byte> memory) : bytes_(memory.size()), memory_(memory) {}
  // Elsewhere than in this process's memory: bytes go in through `staging`, with one buffer of kMaxPieceBytes.
  LocalPool(uint64_t bytes, std::unique_ptr<PoolStaging> staging) : bytes_(bytes), staging_(std::move(staging)) {}
  ~LocalPool() {
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  }
  LocalPool(const LocalPool&) = delete;
  LocalPool& operator=(const LocalPool&) = delete;

  uint64_t bytes() const { return bytes_; }
  std::span<std::byte> memory() const { return memory_; }
  void SetGate(WriteGate* gate) {
    absl::MutexLock lock(&mutex_);
    gate_ = gate;
  }
  // After it no put touches the gate or the memory.
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    staging_.reset();
  }
  absl::Status Write(const WriteStamp& stamp, const PutRun& run, bool ask_gate) {
    absl::MutexLock lock(&mutex_);
    if (closed_) return Unavailable("the peer's pool is gone");
    if (ask_gate && (gate_ == nullptr || !gate_->Admit(stamp, run.target_offset, run.bytes))) return absl::OkStatus();
    const absl::Status copied = Copy(run);
    if (ask_gate) gate_->Written(stamp, run.target_offset, run.bytes);
    return copied;
  }
  // Without the lock: a slow gate holds up the worker that asks it, not those who queue more.
  absl::Status Check() const { return closed_ ? Unavailable("the peer's pool is gone") : absl::OkStatus(); }

 private:
  absl::Status Copy(const PutRun& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (staging_ == nullptr) {
      std::memcpy(memory_.data() + run.target_offset, run.source, run.bytes);
      return absl::OkStatus();
    }
    std::memcpy(staging_->buffer(0), run.source, run.bytes);
    const PoolRun into{run.target_offset, run.bytes, 0};
    BATON_RETURN_IF_ERROR(staging_->Write(0, {&into, 1}));
    return staging_->Wait(0);
  }

  const uint64_t bytes_;
  const std::span<std::byte> memory_;
  absl::Mutex mutex_;
  std::unique_ptr<PoolStaging> staging_ ABSL_GUARDED_BY(mutex_);
  WriteGate* gate_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::atomic<bool> closed_{false};
};

void LocalNetwork::Add(const std::string& descriptor, std::shared_ptr<LocalPool> pool) {
  absl::MutexLock lock(&mutex_);
  pools_[descriptor] = std::move(pool);
}

void LocalNetwork::Remove(const std::string& descriptor) {
  absl::MutexLock lock(&mutex_);
  pools_.erase(descriptor);
}

std::shared_ptr<LocalPool> LocalNetwork::Find(const std::string& descriptor) const {
  absl::MutexLock lock(&mutex_);
  const auto it = pools_.find(descriptor);
  return it == pools_.end() ? nullptr : it->second;
}

namespace {

constexpr std::string_view kDescriptorPrefix = "baton-local-1:";

// What a session and the worker share.
struct SessionState {
  std::shared_ptr<LocalPool> target;
  PutSource source;
  std::unique_ptr<PoolStaging> reader;  // the worker's; null without a source
  absl::Mutex mutex;
  absl::Status status ABSL_GUARDED_BY(mutex);  // the first error; it ends the session

  absl::Status Get() {
    absl::MutexLock lock(&mutex);
    return status;
  }
  void End(const absl::Status& error) {
    absl::MutexLock lock(&mutex);
    if (status.ok()) status = error;
  }
};

struct Put {
  WriteStamp stamp;
  std::vector<PutRun> runs;
};
struct Operation {
  std::shared_ptr<SessionState> session;
  Put put;
  std::function<void(const absl::Status&)> done;  // set for a flush
};

// The thread that carries out operations in order.
class Worker {
 public:
  explicit Worker(bool ask_gate) : ask_gate_(ask_gate), thread_([this] { Run(); }) {}
  ~Worker() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }
  void Add(Operation operation) {
    absl::MutexLock lock(&mutex_);
    operations_.push_back(std::move(operation));
  }

 private:
  bool Ready() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !operations_.empty(); }

  void Run() {
    while (true) {
      std::deque<Operation> operations;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &Worker::Ready));
        operations.swap(operations_);
        if (operations.empty()) return;
      }
      for (Operation& operation : operations) Execute(operation);
    }
  }

  void Execute(Operation& operation) const {
    SessionState& session = *operation.session;
    for (PutRun& run : operation.put.runs) {
      if (!session.Get().ok()) break;
      absl::Status status = run.source == nullptr ? ReadSource(session, run) : absl::OkStatus();
      if (status.ok()) status = session.target->Write(operation.put.stamp, run, ask_gate_);
      if (!status.ok()) session.End(status);
    }
    if (operation.done) {
      if (const absl::Status status = session.target->Check(); !status.ok()) session.End(status);
      operation.done(session.Get());
    }
  }

  static absl::Status ReadSource(SessionState& session, PutRun& run) {
    const PoolRun from{run.source_offset, run.bytes, 0};
    BATON_RETURN_IF_ERROR(session.reader->Read(0, {&from, 1}, session.source.key_order));
    BATON_RETURN_IF_ERROR(session.reader->Wait(0));
    run.source = session.reader->buffer(0);
    return absl::OkStatus();
  }

  const bool ask_gate_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Operation> operations_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

class LocalSession final : public KvSession {
 public:
  LocalSession(std::shared_ptr<LocalPool> target, const PutSource& source, std::unique_ptr<PoolStaging> reader,
               std::shared_ptr<Worker> worker)
      : state_(std::make_shared<SessionState>()), worker_(std::move(worker)) {
    state_->target = std::move(target);
    state_->source = source;
    state_->reader = std::move(reader);
  }
  ~LocalSession() override {
    state_->End(Cancelled("the session was closed"));
    absl::Notification drained;
    worker_->Add({state_, {}, [&](const absl::Status&) { drained.Notify(); }});
    drained.WaitForNotification();
    state_->reader.reset();  // the worker may hold the state a moment longer
  }

  absl::Status Put(const WriteStamp& stamp, std::span<const PutRun> runs) override {
    BATON_RETURN_IF_ERROR(CheckRuns(runs, state_->target->bytes(), state_->source));
    BATON_RETURN_IF_ERROR(state_->target->Check());
    BATON_RETURN_IF_ERROR(state_->Get());
    worker_->Add({state_, {stamp, ArrangeRuns(runs, kMaxPieceBytes)}, nullptr});
    return absl::OkStatus();
  }
  void Flush(std::function<void(const absl::Status&)> done) override { worker_->Add({state_, {}, std::move(done)}); }
  std::string_view lane() const override { return "local"; }

 private:
  const std::shared_ptr<SessionState> state_;
  const std::shared_ptr<Worker> worker_;
};

class LocalTransport final : public KvTransport {
 public:
  LocalTransport(std::shared_ptr<LocalNetwork> network, bool message_puts)
      : network_(std::move(network)), message_puts_(message_puts), worker_(std::make_shared<Worker>(message_puts)) {}
  ~LocalTransport() override {
    if (pool_ == nullptr) return;
    network_->Remove(descriptor_);
    pool_->Close();
  }

  std::string_view name() const override { return "local"; }
  TransportCapabilities capabilities() const override { return {.one_sided = !message_puts_}; }

  absl::StatusOr<std::span<std::byte>> AllocatePool(uint64_t bytes) override {
    if (pool_ != nullptr) return FailedPrecondition("the pool of %d bytes exists", pool_->bytes());
    if (bytes == 0) return InvalidArgument("a pool of 0 bytes");
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return ResourceExhausted("a pool of %d bytes: %s", bytes, std::system_category().message(errno));
    }
    Publish(std::make_shared<LocalPool>(std::span(static_cast<std::byte*>(memory), bytes)));
    return pool_->memory();
  }

  absl::Status UsePool(PoolMemory* pool) override {
    if (pool_ != nullptr) return FailedPrecondition("the pool of %d bytes exists", pool_->bytes());
    BATON_ASSIGN_OR_RETURN(auto staging, pool->MakeStaging(StagingPlace::kHost, 1, kMaxPieceBytes));
    Publish(std::make_shared<LocalPool>(pool->bytes(), std::move(staging)));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Describe() const override {
    if (pool_ == nullptr) return FailedPrecondition("no pool was allocated");
    return descriptor_;
  }

  absl::StatusOr<std::unique_ptr<KvSession>> Connect(const std::string& descriptor, const PutSource& source) override {
    if (!descriptor.starts_with(kDescriptorPrefix)) {
      return InvalidArgument("%d bytes are not a descriptor of the local transport", descriptor.size());
    }
    std::shared_ptr<LocalPool> target = network_->Find(descriptor);
    if (target == nullptr) return Unavailable("no pool %s in this process", descriptor);
    std::unique_ptr<PoolStaging> reader;
    if (source.pool != nullptr) {
      BATON_ASSIGN_OR_RETURN(reader, source.pool->MakeStaging(StagingPlace::kHost, 1, kMaxPieceBytes));
    }
    return std::make_unique<LocalSession>(std::move(target), source, std::move(reader), worker_);
  }

  void SetWriteGate(WriteGate* gate) override {
    gate_ = gate;
    if (pool_ != nullptr) pool_->SetGate(gate);
  }

 private:
  void Publish(std::shared_ptr<LocalPool> pool) {
    pool_ = std::move(pool);
    pool_->SetGate(gate_);
    descriptor_ = std::string(kDescriptorPrefix) + std::to_string(RandomU64());
    network_->Add(descriptor_, pool_);
  }

  const std::shared_ptr<LocalNetwork> network_;
  const bool message_puts_;
  const std::shared_ptr<Worker> worker_;
  std::shared_ptr<LocalPool> pool_;
  WriteGate* gate_ = nullptr;
  std::string descriptor_;
};

}  // namespace

std::unique_ptr<KvTransport> MakeLocalTransport(std::shared_ptr<LocalNetwork> network, bool message_puts) {
  return std::make_unique<LocalTransport>(std::move(network), message_puts);
}

}  // namespace baton
