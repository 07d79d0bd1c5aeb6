#include <poll.h>

#include <array>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/base/start_thread.h"
#include "common/base/status.h"
#include "common/transport/control_codec.h"
#include "common/transport/control_connection.h"
#include "common/transport/framed_socket.h"
#include "common/transport/heartbeat.h"

namespace baton {
namespace {

constexpr size_t kMaxUnsentBytes = 64u << 20;

// The hello exchange, on the caller's thread. On success `frames` holds what followed the welcome.
absl::StatusOr<ControlHello> ExchangeHello(FramedSocket& socket, const ControlHello& self, Incarnation expected,
                                           TimePoint deadline, std::vector<Frame>* frames) {
  socket.Queue(EncodeFrame(FrameType::kHello, EncodeHello(self)));
  std::optional<ControlHello> peer;
  while (true) {
    if (socket.Write() != SocketState::kOpen) return Unavailable("control hello: %s", socket.error());
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= deadline) return Unavailable("control hello was not answered in time");
    pollfd entry{socket.fd(), static_cast<short>(socket.unsent() > 0 ? POLLIN | POLLOUT : POLLIN), 0};
    poll(&entry, 1, PollTimeout(deadline, now));
    const SocketState state = socket.Read(frames);
    for (size_t i = 0; i < frames->size(); ++i) {
      const Frame& frame = (*frames)[i];
      if (frame.type == FrameType::kRefusal) return DecodeRefusal(frame.body);
      if (frame.type == FrameType::kHello && !peer) {
        BATON_ASSIGN_OR_RETURN(peer, DecodeHello(frame.body));
        if (peer->protocol_version == self.protocol_version && peer->incarnation != expected) {
          return Unavailable("%s restarted: incarnation %016x where %016x was expected", peer->name,
                             peer->incarnation.value, expected.value);
        }
        BATON_RETURN_IF_ERROR(CheckHello(self, *peer));
      } else if (frame.type == FrameType::kWelcome && peer) {
        frames->erase(frames->begin(), frames->begin() + static_cast<ptrdiff_t>(i) + 1);
        socket.parser().set_max_frame_bytes(kMaxControlFrameBytes);
        return *std::move(peer);
      } else {
        return Unavailable("control hello was answered by a frame of type %d", static_cast<int>(frame.type));
      }
    }
    frames->clear();
    if (state != SocketState::kOpen) return Unavailable("control hello: %s", socket.error());
  }
}

class TcpControlClient final : public ControlClient {
 public:
  TcpControlClient(FramedSocket socket, ControlHello peer, bool same_host, const ControlOptions& options,
                   OnPeerEvent on_event, std::vector<Frame> first_frames)
      : options_(options),
        peer_(std::move(peer)),
        same_host_(same_host),
        on_event_(std::move(on_event)),
        socket_(std::move(socket)),
        thread_([this, frames = std::move(first_frames)] { Run(frames); }) {}

  ~TcpControlClient() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    wake_.Wake();
    thread_.join();
  }

  void Attach(const AttachMessage& message, OnAnswer on_answer) override {
    Request(FrameType::kAttach, std::move(on_answer), [&](uint64_t id) { return EncodeAttach(id, message); });
  }
  void Commit(const CommitMessage& message, OnAnswer on_answer) override {
    Request(FrameType::kCommit, std::move(on_answer), [&](uint64_t id) { return EncodeCommit(id, message); });
  }
  void Fence(const FenceMessage& message, OnAnswer on_answer) override {
    Request(FrameType::kFence, std::move(on_answer), [&](uint64_t id) { return EncodeFence(id, message); });
  }
  bool connected() const override {
    absl::MutexLock lock(&mutex_);
    return ended_.ok();
  }

 private:
  struct Refused {
    OnAnswer on_answer;
    absl::Status status;
  };

  template <typename Encode>
  void Request(FrameType type, OnAnswer on_answer, Encode encode) {
    {
      absl::MutexLock lock(&mutex_);
      const uint64_t id = ++last_request_;
      const std::string body = encode(id);
      if (!ended_.ok()) {
        refused_.push_back({std::move(on_answer), ended_});
      } else if (body.size() >= kMaxControlFrameBytes) {
        refused_.push_back({std::move(on_answer), InvalidArgument("control request has %d bytes, the limit is %u",
                                                                  body.size(), kMaxControlFrameBytes)});
      } else if (unsent_ + outgoing_.size() + body.size() > kMaxUnsentBytes) {
        refused_.push_back(
            {std::move(on_answer), ResourceExhausted("%s leaves %d bytes of the control connection unread", peer_.name,
                                                     unsent_ + outgoing_.size())});
      } else {
        outgoing_ += EncodeFrame(type, body);
        pending_.emplace(id, std::move(on_answer));
      }
    }
    wake_.Wake();
  }

  void Run(const std::vector<Frame>& first_frames) {
    Heartbeat heartbeat(options_.heartbeat, options_.suspect_after, std::chrono::steady_clock::now());
    SocketState state = Deliver(first_frames);
    std::vector<Frame> frames;
    while (TakeOutgoing()) {
      if (state == SocketState::kOpen) state = socket_.Write();
      if (state != SocketState::kOpen) End(state);
      const bool open = connected();
      std::array<pollfd, 2> entries = {
          pollfd{wake_.get(), POLLIN, 0},
          // poll skips a negative descriptor.
          pollfd{open ? socket_.fd() : -1, static_cast<short>(socket_.unsent() > 0 ? POLLIN | POLLOUT : POLLIN), 0}};
      const TimePoint before = std::chrono::steady_clock::now();
      poll(entries.data(), entries.size(), open ? PollTimeout(heartbeat.NextDeadline(), before) : -1);
      wake_.Drain();
      if (!open) continue;
      // Reading comes before the look at the clock: after a pause of this process the peer's frames are waiting here.
      frames.clear();
      state = socket_.Read(&frames);
      const TimePoint now = std::chrono::steady_clock::now();
      if (!frames.empty() && heartbeat.Heard(now)) on_event_(PeerEvent::kRecovered);
      if (const SocketState delivered = Deliver(frames); state == SocketState::kOpen) state = delivered;
      if (state == SocketState::kOpen && heartbeat.BecameSuspect(now)) on_event_(PeerEvent::kSuspect);
      // A peer that reads nothing gets no pile of heartbeats.
      if (heartbeat.Due(now) && socket_.unsent() == 0) socket_.Queue(EncodeFrame(FrameType::kHeartbeat, {}));
    }
    End(SocketState::kOpen);
  }

  // Moves requests to the socket and reports those that were refused; false when it is time to stop.
  bool TakeOutgoing() {
    std::vector<Refused> refused;
    bool stopping = false;
    {
      absl::MutexLock lock(&mutex_);
      socket_.Queue(outgoing_);
      outgoing_.clear();
      unsent_ = socket_.unsent();
      refused.swap(refused_);
      stopping = stopping_;
    }
    for (Refused& request : refused) request.on_answer(request.status);
    return !stopping;
  }

  SocketState Deliver(const std::vector<Frame>& frames) {
    for (const Frame& frame : frames) {
      if (frame.type == FrameType::kHeartbeat) continue;
      if (frame.type != FrameType::kAnswer) return SocketState::kProtocolError;
      absl::StatusOr<Numbered<AnswerMessage>> answer = DecodeAnswer(frame.body);
      if (!answer.ok()) return SocketState::kProtocolError;
      OnAnswer on_answer;
      {
        absl::MutexLock lock(&mutex_);
        const auto it = pending_.find(answer->request);
        if (it == pending_.end()) return SocketState::kProtocolError;
        on_answer = std::move(it->second);
        pending_.erase(it);
      }
      on_answer(std::move(answer->message));
    }
    return SocketState::kOpen;
  }

  // The connection is over, or (kOpen) this object is: what waits for an answer learns it. Keeps the socket open: while
  // this process may still write, its end of file would be a lie.
  void End(SocketState state) {
    absl::flat_hash_map<uint64_t, OnAnswer> pending;
    std::vector<Refused> refused;
    absl::Status ended;
    bool news = false;
    {
      absl::MutexLock lock(&mutex_);
      news = ended_.ok() && state != SocketState::kOpen;
      if (ended_.ok()) {
        ended_ = state == SocketState::kOpen
                     ? Unavailable("control connection to %s was closed here", peer_.name)
                     : Unavailable("control connection to %s ended: %s", peer_.name,
                                   state == SocketState::kProtocolError ? "it sent what cannot be" : socket_.error());
      }
      ended = ended_;
      pending.swap(pending_);
      refused.swap(refused_);
    }
    for (auto& [id, on_answer] : pending) on_answer(ended);
    for (Refused& request : refused) request.on_answer(request.status);
    if (!news) return;
    const bool gone = state == SocketState::kReset || (state == SocketState::kEndOfFile && same_host_);
    on_event_(gone ? PeerEvent::kGone : PeerEvent::kLost);
  }

  const ControlOptions options_;
  const ControlHello peer_;
  const bool same_host_;
  const OnPeerEvent on_event_;
  const WakeFd wake_;

  mutable absl::Mutex mutex_;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);  // OK while connected
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string outgoing_ ABSL_GUARDED_BY(mutex_);
  size_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;  // what socket_ held when it was last looked at
  absl::flat_hash_map<uint64_t, OnAnswer> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<Refused> refused_ ABSL_GUARDED_BY(mutex_);

  FramedSocket socket_;  // the thread's
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlClient>> ControlClient::Connect(const std::string& host, uint16_t port,
                                                                      const ControlHello& self, Incarnation expected,
                                                                      const ControlOptions& options,
                                                                      OnPeerEvent on_event) {
  const TimePoint deadline = std::chrono::steady_clock::now() + options.connect_timeout;
  BATON_ASSIGN_OR_RETURN(UniqueFd fd, ConnectTo(host, port, deadline));
  SetControlSocketOptions(fd.get(), options.lost_after);
  FramedSocket socket(std::move(fd));
  std::vector<Frame> frames;
  absl::StatusOr<ControlHello> peer = ExchangeHello(socket, self, expected, deadline, &frames);
  if (!peer.ok()) return WithContext(peer.status(), host + ":" + std::to_string(port));
  const bool same_host = peer->host_id == self.host_id && !self.host_id.empty();
  return StartThread([&]() -> std::unique_ptr<ControlClient> {
    return std::make_unique<TcpControlClient>(std::move(socket), *std::move(peer), same_host, options,
                                              std::move(on_event), std::move(frames));
  });
}

}  // namespace baton
