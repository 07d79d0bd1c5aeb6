#include "common/transport/nccl/nccl_session.h"

#include <poll.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/start_thread.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "common/transport/framed_socket.h"
#include "common/transport/nccl/nccl_communicator.h"
#include "common/transport/nccl/nccl_staging.h"
#include "common/transport/put_runs.h"

namespace baton {
namespace {

// How often work of the device is looked after while something is under way.
constexpr Duration kPollInterval = std::chrono::milliseconds(1);
constexpr Duration kConnectionLostAfter = std::chrono::seconds(30);

using Done = std::function<void(const absl::Status&)>;

class NcclSession final : public KvSession {
 public:
  NcclSession(NcclDescriptor target, const PutSource& source, int device, TimePoint deadline)
      : target_(std::move(target)), source_(source), device_(device), deadline_(deadline), thread_([this] { Run(); }) {}

  ~NcclSession() override {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    wake_.Wake();
    thread_.join();
  }

  absl::Status WaitOpen() {
    opened_.WaitForNotification();
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

  absl::Status Put(const WriteStamp& stamp, std::span<const PutRun> runs) override {
    BATON_RETURN_IF_ERROR(CheckRuns(runs, target_.pool_bytes, source_));
    std::vector<NcclPiece> pieces = CutPieces(stamp, runs);
    {
      absl::MutexLock lock(&mutex_);
      if (!ended_.ok()) return ended_;
      for (NcclPiece& piece : pieces) operations_.push_back({std::move(piece), nullptr});
    }
    wake_.Wake();
    return absl::OkStatus();
  }

  void Flush(Done done) override {
    {
      absl::MutexLock lock(&mutex_);
      operations_.push_back({std::nullopt, std::move(done)});
    }
    wake_.Wake();
  }

  std::string_view lane() const override { return "nccl"; }

 private:
  struct Operation {
    std::optional<NcclPiece> piece;  // else a flush
    Done done;
  };
  struct OpenFlush {
    uint64_t after;  // reports when so many pieces are applied
    Done done;
  };

  static std::vector<NcclPiece> CutPieces(const WriteStamp& stamp, std::span<const PutRun> runs) {
    std::vector<NcclPiece> pieces;
    uint64_t left = 0;
    for (PutRun run : ArrangeRuns(runs, kNcclPieceBytes)) {
      if (run.bytes > left) {
        pieces.push_back({stamp, {}});
        left = kNcclPieceBytes;
      }
      left -= run.bytes;
      pieces.back().runs.push_back(run);
    }
    return pieces;
  }

  void Run() {
    const absl::Status opened = Open();
    if (!opened.ok()) End(opened);
    opened_.Notify();
    while (true) {
      bool closing = false;
      {
        absl::MutexLock lock(&mutex_);
        closing = closing_;
        for (; !operations_.empty(); operations_.pop_front()) {
          Operation& operation = operations_.front();
          if (operation.piece) {
            waiting_.push_back(*std::move(operation.piece));
            ++accepted_;
          } else {
            flushes_.push_back({accepted_, std::move(operation.done)});
          }
        }
      }
      if (closing) End(Cancelled("the session was closed"));
      if (is_open()) {
        if (const absl::Status status = Advance(); !status.ok()) End(status);
      }
      ReportFlushes();
      if (closing) return;
      Wait();
    }
  }

  bool is_open() const { return communicator_ != nullptr; }

  absl::Status Open() {
    BATON_RETURN_IF_ERROR(device::Open(device_).status());
    BATON_ASSIGN_OR_RETURN(UniqueFd fd, ConnectTo(target_.host, target_.port, deadline_));
    SetControlSocketOptions(fd.get(), kConnectionLostAfter);
    socket_.emplace(std::move(fd));
    socket_->Queue(EncodeFrame(FrameType::kHello, EncodeNcclHello({target_.instance, target_.secret})));
    BATON_ASSIGN_OR_RETURN(staging_, NcclStaging::Create(source_.pool));
    while (frames_.empty()) BATON_RETURN_IF_ERROR(WaitUntilDeadline());
    const Frame answer = std::move(frames_.front());
    frames_.clear();
    if (answer.type == FrameType::kRefusal) return Unavailable("the target refused: %s", answer.body);
    if (answer.type != FrameType::kWelcome) return Unavailable("hello was answered by a frame of type %d", answer.type);
    BATON_ASSIGN_OR_RETURN(auto communicator, NcclCommunicator::Start(answer.body, NcclCommunicator::kWriter));
    while (true) {
      BATON_ASSIGN_OR_RETURN(const bool settled, communicator->Settled());
      if (settled) break;
      BATON_RETURN_IF_ERROR(WaitUntilDeadline());
    }
    communicator_ = std::move(communicator);
    return absl::OkStatus();
  }

  // A moment of the connection while it opens.
  absl::Status WaitUntilDeadline() {
    if (std::chrono::steady_clock::now() >= deadline_) return Unavailable("the target did not answer in time");
    {
      absl::MutexLock lock(&mutex_);
      if (closing_) return Cancelled("the session was closed");
    }
    Poll(kPollInterval);
    return TalkToTarget();
  }

  absl::Status TalkToTarget() {
    if (socket_->Write() != SocketState::kOpen) return Unavailable("the target is gone: %s", socket_->error());
    if (socket_->Read(&frames_) != SocketState::kOpen) return Unavailable("the target is gone: %s", socket_->error());
    return absl::OkStatus();
  }

  // Everything that can be done without waiting.
  absl::Status Advance() {
    BATON_RETURN_IF_ERROR(TalkToTarget());
    for (const Frame& frame : frames_) {
      if (frame.type != FrameType::kApplied || applied_ == sent_) {
        return Unavailable("the target broke the protocol with a frame of type %d", static_cast<int>(frame.type));
      }
      ++applied_;
    }
    frames_.clear();
    BATON_ASSIGN_OR_RETURN(bool settled, communicator_->Settled());
    while (settled && !waiting_.empty() && sent_ - applied_ < kNcclPieces) {
      BATON_RETURN_IF_ERROR(Send(waiting_.front()));
      waiting_.pop_front();
      BATON_ASSIGN_OR_RETURN(settled, communicator_->Settled());
    }
    if (applied_ < sent_) BATON_RETURN_IF_ERROR(staging_.moved[(sent_ - 1) % kNcclPieces].Reached().status());
    return TalkToTarget();
  }

  absl::Status Send(const NcclPiece& piece) {
    std::byte* const buffer = staging_.buffer(sent_);
    device::Event& gathered = staging_.gathered[sent_ % kNcclPieces];
    uint64_t at = 0;
    std::vector<PoolRun> from_pool;
    for (const PutRun& run : piece.runs) {
      if (run.source == nullptr) {
        from_pool.push_back({run.source_offset, run.bytes, at});
      } else {
        BATON_RETURN_IF_ERROR(staging_.copies.Copy(buffer + at, run.source, run.bytes));
      }
      at += run.bytes;
    }
    if (!from_pool.empty()) {
      BATON_RETURN_IF_ERROR(staging_.pool->Read(NcclStaging::slot(sent_), from_pool, source_.key_order));
      BATON_RETURN_IF_ERROR(staging_.pool->MakeWait(staging_.wire, NcclStaging::slot(sent_)));
    }
    BATON_RETURN_IF_ERROR(staging_.copies.Record(gathered));
    BATON_RETURN_IF_ERROR(staging_.wire.WaitFor(gathered));
    socket_->Queue(EncodeFrame(FrameType::kAnnounce, EncodeNcclPiece(piece)));
    BATON_RETURN_IF_ERROR(communicator_->Send(buffer, at, staging_.wire));
    BATON_RETURN_IF_ERROR(staging_.wire.Record(staging_.moved[sent_ % kNcclPieces]));
    ++sent_;
    return absl::OkStatus();
  }

  // The first reason stays. Afterwards nothing reads sources.
  void End(const absl::Status& why) {
    {
      absl::MutexLock lock(&mutex_);
      if (ended_.ok()) ended_ = why;
    }
    if (communicator_ != nullptr) {
      communicator_.reset();
      (void)staging_.copies.Synchronize();
      (void)staging_.wire.Synchronize();
    }
    staging_ = {};  // waits for reads of the pool
    socket_.reset();
    waiting_.clear();
  }

  void ReportFlushes() {
    absl::Status ended;
    {
      absl::MutexLock lock(&mutex_);
      ended = ended_;
    }
    while (!flushes_.empty() && (!ended.ok() || flushes_.front().after <= applied_)) {
      const OpenFlush flush = std::move(flushes_.front());
      flushes_.pop_front();
      flush.done(ended);
    }
  }

  void Wait() {
    if (!is_open()) return Poll(std::chrono::hours(1));
    Poll(applied_ < sent_ || !waiting_.empty() ? kPollInterval : Duration(std::chrono::seconds(1)));
  }

  void Poll(Duration longest) {
    const TimePoint now = std::chrono::steady_clock::now();
    pollfd entries[] = {{wake_.get(), POLLIN, 0}, {socket_ ? socket_->fd() : -1, POLLIN, 0}};
    if (socket_ && socket_->unsent() > 0) entries[1].events |= POLLOUT;
    poll(entries, 2, PollTimeout(now + longest, now));
    wake_.Drain();
  }

  const NcclDescriptor target_;
  const PutSource source_;
  const int device_;
  const TimePoint deadline_;
  WakeFd wake_;
  absl::Notification opened_;
  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  std::deque<Operation> operations_ ABSL_GUARDED_BY(mutex_);

  // The thread's.
  std::optional<FramedSocket> socket_;
  std::vector<Frame> frames_;
  NcclStaging staging_;
  std::unique_ptr<NcclCommunicator> communicator_;
  std::deque<NcclPiece> waiting_;
  std::deque<OpenFlush> flushes_;
  uint64_t accepted_ = 0, sent_ = 0, applied_ = 0;  // pieces
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvSession>> OpenNcclSession(NcclDescriptor target, const PutSource& source, int device,
                                                           TimePoint deadline) {
  BATON_ASSIGN_OR_RETURN(auto session, StartThread([&] {
                           return std::make_unique<NcclSession>(std::move(target), source, device, deadline);
                         }));
  BATON_RETURN_IF_ERROR(session->WaitOpen());
  return session;
}

}  // namespace baton
