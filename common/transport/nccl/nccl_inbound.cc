#include "common/transport/nccl/nccl_inbound.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/start_thread.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "common/transport/nccl/nccl_communicator.h"

namespace baton {
namespace {

constexpr Duration kPollInterval = std::chrono::milliseconds(1);
constexpr Duration kHelloTimeout = std::chrono::seconds(5);
constexpr Duration kConnectionLostAfter = std::chrono::seconds(30);

// Until something arrives, something can be sent, the transport stops, or `longest` has passed.
void WaitFor(const FramedSocket& socket, const WakeFd& stop, Duration longest) {
  const TimePoint now = std::chrono::steady_clock::now();
  pollfd entries[] = {{stop.get(), POLLIN, 0}, {socket.fd(), POLLIN, 0}};
  if (socket.unsent() > 0) entries[1].events |= POLLOUT;
  poll(entries, 2, PollTimeout(now + longest, now));
}

absl::Status Talk(FramedSocket& socket, std::vector<Frame>* frames) {
  if (socket.Write() != SocketState::kOpen) return Unavailable("the writer is gone: %s", socket.error());
  if (socket.Read(frames) != SocketState::kOpen) return Unavailable("the writer is gone: %s", socket.error());
  return absl::OkStatus();
}

void Refuse(FramedSocket& socket, const std::string& why) {
  socket.Queue(EncodeFrame(FrameType::kRefusal, why));
  (void)socket.Write();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclInbound>> NcclInbound::Start(const std::string& host, int device, uint64_t instance,
                                                                uint64_t secret, PoolMemory* pool) {
  BATON_ASSIGN_OR_RETURN(auto listener, ListenOn(host, 0));
  return StartThread([&] {
    return std::unique_ptr<NcclInbound>(
        new NcclInbound(std::move(listener.first), listener.second, device, instance, secret, pool));
  });
}

NcclInbound::NcclInbound(UniqueFd listener, uint16_t port, int device, uint64_t instance, uint64_t secret,
                         PoolMemory* pool)
    : listener_(std::move(listener)),
      port_(port),
      device_(device),
      instance_(instance),
      secret_(secret),
      pool_(pool),
      thread_([this] { Accept(); }) {}

NcclInbound::~NcclInbound() {
  stopping_ = true;
  stop_.Wake();  // never drained: every thread sees it
  thread_.join();
  for (Writer& writer : writers_) writer.thread.join();
}

void NcclInbound::SetGate(WriteGate* gate) {
  absl::MutexLock lock(&gate_mutex_);
  gate_ = gate;
}

void NcclInbound::ReapWriters() {
  std::erase_if(writers_, [](Writer& writer) {
    if (!writer.done) return false;
    writer.thread.join();
    return true;
  });
}

void NcclInbound::Accept() {
  while (!stopping_) {
    pollfd entries[] = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    poll(entries, 2, -1);
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    ReapWriters();
    if (stopping_ || fd.get() < 0) continue;
    SetControlSocketOptions(fd.get(), kConnectionLostAfter);
    FramedSocket socket(std::move(fd));
    if (writers_.size() >= kMaxWriters) {
      Refuse(socket, std::to_string(kMaxWriters) + " writers are connected, the most there may be");
      continue;
    }
    Writer& writer = writers_.emplace_back(std::move(socket));
    auto thread = StartThread([&] { return std::thread([this, &writer] { ServeAndClose(writer); }); });
    if (thread.ok()) {
      writer.thread = *std::move(thread);
    } else {
      Refuse(*writer.socket, StatusMessage(thread.status()));
      writers_.pop_back();
    }
  }
}

void NcclInbound::ServeAndClose(Writer& writer) {
  (void)Serve(*writer.socket);  // the writer knows by the connection's end
  writer.socket.reset();
  writer.done = true;
}

absl::Status NcclInbound::Serve(FramedSocket& socket) {
  BATON_RETURN_IF_ERROR(device::Open(device_).status());
  const TimePoint deadline = std::chrono::steady_clock::now() + kHelloTimeout;
  std::vector<Frame> frames;
  const auto wait = [&] {
    if (std::chrono::steady_clock::now() >= deadline) return Unavailable("no hello in time");
    if (stopping_) return Cancelled("the transport goes");
    WaitFor(socket, stop_, kPollInterval);
    return Talk(socket, &frames);
  };
  while (frames.empty()) BATON_RETURN_IF_ERROR(wait());
  if (frames[0].type != FrameType::kHello || frames.size() > 1) return InvalidArgument("a writer that says no hello");
  BATON_ASSIGN_OR_RETURN(const NcclHello hello, DecodeNcclHello(frames[0].body));
  frames.clear();
  if (hello.instance != instance_ || hello.secret != secret_) {
    socket.Queue(EncodeFrame(FrameType::kRefusal, "the descriptor is another's"));
    return Talk(socket, &frames);
  }
  socket.parser().set_max_frame_bytes(kMaxControlFrameBytes);
  BATON_ASSIGN_OR_RETURN(NcclStaging staging, NcclStaging::Create(pool_));
  BATON_ASSIGN_OR_RETURN(const std::string id, NcclCommunicator::NewId());
  socket.Queue(EncodeFrame(FrameType::kWelcome, id));
  BATON_RETURN_IF_ERROR(Talk(socket, &frames));
  // Declared after the staging buffers: aborts before they go, and before their streams are waited for.
  BATON_ASSIGN_OR_RETURN(const auto communicator, NcclCommunicator::Start(id, NcclCommunicator::kTarget));
  while (true) {
    BATON_ASSIGN_OR_RETURN(const bool settled, communicator->Settled());
    if (settled) break;
    BATON_RETURN_IF_ERROR(wait());
  }

  std::deque<NcclPiece> announced, receiving;
  uint64_t received = 0, applied = 0;  // pieces
  while (!stopping_) {
    BATON_RETURN_IF_ERROR(Talk(socket, &frames));
    for (const Frame& frame : frames) {
      if (frame.type != FrameType::kAnnounce)
        return InvalidArgument("a writer that sends type %d", static_cast<int>(frame.type));
      BATON_ASSIGN_OR_RETURN(NcclPiece piece, DecodeNcclPiece(frame.body, pool_->bytes()));
      announced.push_back(std::move(piece));
      if (announced.size() + receiving.size() > kNcclPieces) {
        return InvalidArgument("a writer with more than %d pieces under way", kNcclPieces);
      }
    }
    frames.clear();
    BATON_ASSIGN_OR_RETURN(bool settled, communicator->Settled());
    while (settled && !announced.empty()) {
      BATON_RETURN_IF_ERROR(communicator->Receive(staging.buffer(received), announced.front().bytes(), staging.wire));
      BATON_RETURN_IF_ERROR(staging.wire.Record(staging.moved[received % kNcclPieces]));
      ++received;
      receiving.push_back(std::move(announced.front()));
      announced.pop_front();
      BATON_ASSIGN_OR_RETURN(settled, communicator->Settled());
    }
    bool progress = false;
    while (!receiving.empty()) {
      BATON_ASSIGN_OR_RETURN(const bool arrived, staging.moved[applied % kNcclPieces].Reached());
      if (!arrived) break;
      BATON_ASSIGN_OR_RETURN(settled, communicator->Settled());  // an abort also ends the stream's work
      BATON_RETURN_IF_ERROR(Apply(receiving.front(), *staging.pool, NcclStaging::slot(applied)));
      receiving.pop_front();
      ++applied;
      socket.Queue(EncodeFrame(FrameType::kApplied, ""));
      progress = true;
    }
    if (progress) continue;
    const bool idle = announced.empty() && receiving.empty();
    WaitFor(socket, stop_, idle ? Duration(std::chrono::seconds(1)) : kPollInterval);
  }
  return Cancelled("the transport goes");
}

absl::Status NcclInbound::Apply(const NcclPiece& piece, PoolStaging& staging, size_t buffer) {
  absl::MutexLock lock(&gate_mutex_);
  std::vector<PoolRun> admitted;
  uint64_t at = 0;
  for (const PutRun& run : piece.runs) {
    if (gate_ != nullptr && gate_->Admit(piece.stamp, run.target_offset, run.bytes)) {
      admitted.push_back({run.target_offset, run.bytes, at});
    }
    at += run.bytes;
  }
  if (admitted.empty()) return absl::OkStatus();
  absl::Status copied = staging.Write(buffer, admitted);
  // Also after an error: until it returns, copies may be under way.
  const absl::Status waited = staging.Wait(buffer);
  if (copied.ok()) copied = waited;
  for (const PoolRun& run : admitted) gate_->Written(piece.stamp, run.offset, run.bytes);
  return copied;
}

}  // namespace baton
