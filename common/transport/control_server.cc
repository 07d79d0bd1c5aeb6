#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status.h"
#include "common/transport/control_codec.h"
#include "common/transport/control_connection.h"
#include "common/transport/framed_socket.h"
#include "common/transport/heartbeat.h"

namespace baton {
namespace {

constexpr size_t kMaxConnections = 4096;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr size_t kMaxUnsentBytes = 64u << 20;    // of a peer that does not read its answers
constexpr uint32_t kMaxOpenRequests = 1u << 16;  // of one peer

// Where answers wait for the I/O thread. Shared with every Answer, so that one may be called after the server is gone.
class AnswerQueue {
 public:
  struct Entry {
    uint64_t connection = 0;
    std::string frame;
  };

  void Push(Entry entry) {
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) return;
      entries_.push_back(std::move(entry));
    }
    wake_.Wake();
  }
  std::vector<Entry> TakeAll() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(entries_, {});
  }
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    entries_.clear();
  }
  const WakeFd& wake() const { return wake_; }

 private:
  const WakeFd wake_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

struct Connection {
  enum class Stage : uint8_t {
    kHello,  // waiting for the peer's
    kOpen,
    kRefusing,  // sends the refusal, then closes
    kProbing,   // the other host closed; a reset in answer to a heartbeat proves that nobody is there
  };

  Connection(uint64_t id, UniqueFd fd, const ControlOptions& options, TimePoint now)
      : id(id),
        socket(std::move(fd)),
        heartbeat(options.heartbeat, options.suspect_after, now),
        deadline(now + options.connect_timeout) {}

  const uint64_t id;
  FramedSocket socket;
  Heartbeat heartbeat;
  Stage stage = Stage::kHello;
  TimePoint deadline;  // of every stage but kOpen
  Incarnation peer;
  bool same_host = false;
  uint32_t open_requests = 0;
};

// What the handler knows as one peer: an incarnation with one or, around a reconnect, several connections.
struct Peer {
  uint32_t connections = 0;
  bool suspect = false;
};

class TcpControlServer final : public ControlServer {
 public:
  TcpControlServer(UniqueFd listener, uint16_t port, ControlHello self, const ControlOptions& options,
                   ControlHandler* handler)
      : listener_(std::move(listener)),
        port_(port),
        self_(std::move(self)),
        options_(options),
        handler_(handler),
        thread_([this] { Run(); }) {}

  ~TcpControlServer() override {
    stopping_ = true;
    answers_->wake().Wake();
    thread_.join();
    answers_->Close();
  }

  uint16_t port() const override { return port_; }
  ControlCounts counts() const override {
    return {accepted_.load(), refused_hellos_.load(), protocol_errors_.load(), open_.load()};
  }

 private:
  void Run() {
    std::vector<pollfd> entries;
    while (!stopping_) {
      TimePoint now = std::chrono::steady_clock::now();
      TimePoint wake_at = now + std::chrono::minutes(1);
      entries.assign(
          {pollfd{answers_->wake().get(), POLLIN, 0},
           // poll skips a negative descriptor.
           pollfd{connections_.size() < kMaxConnections && now >= accept_again_ ? listener_.get() : -1, POLLIN, 0}});
      if (now < accept_again_) wake_at = accept_again_;
      for (const Connection& connection : connections_) {
        const bool reads = connection.stage != Connection::Stage::kProbing;
        const bool writes = connection.socket.unsent() > 0;
        entries.push_back(
            {connection.socket.fd(), static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0});
        if (connection.stage != Connection::Stage::kOpen) wake_at = std::min(wake_at, connection.deadline);
        if (connection.stage == Connection::Stage::kOpen || connection.stage == Connection::Stage::kProbing) {
          wake_at = std::min(wake_at, connection.heartbeat.NextDeadline());
        }
      }
      poll(entries.data(), entries.size(), PollTimeout(wake_at, now));
      answers_->wake().Drain();
      QueueAnswers();
      size_t index = 2;
      for (auto it = connections_.begin(); it != connections_.end(); ++index) {
        const auto connection = it++;
        const SocketState state = Serve(*connection, entries[index].revents);
        if (state != SocketState::kOpen) Drop(connection, state);
      }
      if (entries[1].revents != 0) Accept();
    }
    connections_.clear();
  }

  void Accept() {
    while (connections_.size() < kMaxConnections) {
      UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.get() < 0) {
        // Out of descriptors or the like: look again a little later instead of spinning on a readable listener.
        if (errno != EAGAIN && errno != EWOULDBLOCK) accept_again_ = std::chrono::steady_clock::now() + kAcceptPause;
        return;
      }
      SetControlSocketOptions(fd.get(), options_.lost_after);
      connections_.emplace_back(++last_connection_, std::move(fd), options_, std::chrono::steady_clock::now());
      ++accepted_;
    }
  }

  void QueueAnswers() {
    const std::vector<AnswerQueue::Entry> answers = answers_->TakeAll();
    if (answers.empty()) return;
    absl::flat_hash_map<uint64_t, Connection*> by_id;
    for (Connection& connection : connections_) by_id.emplace(connection.id, &connection);
    for (const AnswerQueue::Entry& entry : answers) {
      const auto it = by_id.find(entry.connection);
      if (it == by_id.end()) continue;
      if (it->second->open_requests > 0) --it->second->open_requests;
      it->second->socket.Queue(entry.frame);
    }
  }

  // One round for one connection: read, act, look at the clock, write.
  SocketState Serve(Connection& connection, short events) {
    SocketState state = SocketState::kOpen;
    if ((events & (POLLIN | POLLERR | POLLHUP)) != 0 && connection.stage != Connection::Stage::kProbing) {
      std::vector<Frame> frames;
      state = connection.socket.Read(&frames);
      if (!frames.empty()) Heard(connection);
      for (Frame& frame : frames) {
        if (!Handle(connection, std::move(frame))) return SocketState::kProtocolError;
      }
    }
    if (state == SocketState::kEndOfFile && connection.stage == Connection::Stage::kOpen && !connection.same_host) {
      connection.stage = Connection::Stage::kProbing;
      connection.deadline = std::chrono::steady_clock::now() + options_.suspect_after;
      connection.socket.Queue(EncodeFrame(FrameType::kHeartbeat, {}));
      state = SocketState::kOpen;
    } else if (connection.stage == Connection::Stage::kProbing && (events & (POLLERR | POLLHUP)) != 0) {
      connection.socket.Queue(EncodeFrame(FrameType::kHeartbeat, {}));  // sending is what returns the reset
    }
    const TimePoint now = std::chrono::steady_clock::now();
    if (state == SocketState::kOpen) state = LookAtClock(connection, now);
    if (connection.socket.unsent() > kMaxUnsentBytes) return SocketState::kFailed;
    if (state == SocketState::kOpen) state = connection.socket.Write();
    if (connection.stage == Connection::Stage::kRefusing && connection.socket.unsent() == 0)
      return SocketState::kFailed;
    return state;
  }

  SocketState LookAtClock(Connection& connection, TimePoint now) {
    if (connection.stage != Connection::Stage::kOpen && now >= connection.deadline) return SocketState::kFailed;
    if (connection.stage == Connection::Stage::kOpen && connection.heartbeat.BecameSuspect(now)) {
      const bool all_silent = std::ranges::all_of(connections_, [&](const Connection& other) {
        return other.stage != Connection::Stage::kOpen || other.peer != connection.peer || other.heartbeat.suspect();
      });
      Peer& peer = peers_[connection.peer];
      if (all_silent && !std::exchange(peer.suspect, true)) handler_->OnPeerEvent(connection.peer, PeerEvent::kSuspect);
    }
    if ((connection.stage == Connection::Stage::kOpen || connection.stage == Connection::Stage::kProbing) &&
        connection.heartbeat.Due(now) && connection.socket.unsent() == 0) {
      connection.socket.Queue(EncodeFrame(FrameType::kHeartbeat, {}));
    }
    return SocketState::kOpen;
  }

  void Heard(Connection& connection) {
    connection.heartbeat.Heard(std::chrono::steady_clock::now());
    if (connection.stage != Connection::Stage::kOpen) return;
    if (std::exchange(peers_[connection.peer].suspect, false)) {
      handler_->OnPeerEvent(connection.peer, PeerEvent::kRecovered);
    }
  }

  // False for what a peer must not send.
  bool Handle(Connection& connection, Frame frame) {
    if (connection.stage == Connection::Stage::kRefusing) return true;
    if (connection.stage == Connection::Stage::kHello) {
      return frame.type == FrameType::kHello && HandleHello(connection, frame.body);
    }
    if (frame.type == FrameType::kHeartbeat) return true;
    if (++connection.open_requests > kMaxOpenRequests) return false;
    switch (frame.type) {
      case FrameType::kAttach: {
        const auto attach = DecodeAttach(frame.body);
        if (!attach.ok()) return false;
        handler_->OnAttach(connection.peer, attach->message, AnswerTo(connection, attach->request));
        return true;
      }
      case FrameType::kCommit: {
        auto commit = DecodeCommit(frame.body);
        if (!commit.ok()) return false;
        handler_->OnCommit(connection.peer, std::move(commit->message), AnswerTo(connection, commit->request));
        return true;
      }
      case FrameType::kFence: {
        const auto fence = DecodeFence(frame.body);
        if (!fence.ok()) return false;
        handler_->OnFence(connection.peer, fence->message, AnswerTo(connection, fence->request));
        return true;
      }
      default:
        return false;
    }
  }

  bool HandleHello(Connection& connection, const std::string& body) {
    absl::StatusOr<ControlHello> hello = DecodeHello(body);
    if (!hello.ok()) return false;
    // Our hello goes first, whatever follows: it tells a peer with an old descriptor that this is a new process.
    ControlHello own = self_;
    own.secret = 0;
    connection.socket.Queue(EncodeFrame(FrameType::kHello, EncodeHello(own)));
    absl::Status accepted = CheckHello(self_, *hello);
    if (accepted.ok() && self_.secret != 0 && hello->secret != self_.secret) {
      accepted = FailedPrecondition("%s does not know the secret of %s", hello->name, self_.name);
    }
    if (accepted.ok()) accepted = handler_->OnHello(*hello);
    if (!accepted.ok()) {
      ++refused_hellos_;
      connection.socket.Queue(EncodeFrame(FrameType::kRefusal, EncodeRefusal(accepted)));
      connection.stage = Connection::Stage::kRefusing;
      return true;
    }
    connection.socket.Queue(EncodeFrame(FrameType::kWelcome, {}));
    connection.socket.parser().set_max_frame_bytes(kMaxControlFrameBytes);
    connection.stage = Connection::Stage::kOpen;
    connection.peer = hello->incarnation;
    connection.same_host = hello->host_id == self_.host_id && !self_.host_id.empty();
    ++peers_[connection.peer].connections;
    ++open_;
    if (std::exchange(peers_[connection.peer].suspect, false)) {
      handler_->OnPeerEvent(connection.peer, PeerEvent::kRecovered);
    }
    return true;
  }

  ControlHandler::Answer AnswerTo(const Connection& connection, uint64_t request) const {
    return [queue = answers_, id = connection.id, request](AnswerMessage message) {
      queue->Push({id, EncodeFrame(FrameType::kAnswer, EncodeAnswer(request, message))});
    };
  }

  void Drop(std::list<Connection>::iterator connection, SocketState state) {
    const Incarnation incarnation = connection->peer;
    const bool was_open =
        connection->stage == Connection::Stage::kOpen || connection->stage == Connection::Stage::kProbing;
    const bool gone = state == SocketState::kReset || (state == SocketState::kEndOfFile && connection->same_host);
    if (state == SocketState::kProtocolError) ++protocol_errors_;
    connections_.erase(connection);
    if (!was_open) return;
    --open_;
    const auto peer = peers_.find(incarnation);
    if (--peer->second.connections > 0) return;
    peers_.erase(peer);
    handler_->OnPeerEvent(incarnation, gone ? PeerEvent::kGone : PeerEvent::kLost);
  }

  const UniqueFd listener_;
  const uint16_t port_;
  const ControlHello self_;
  const ControlOptions options_;
  ControlHandler* const handler_;
  const std::shared_ptr<AnswerQueue> answers_ = std::make_shared<AnswerQueue>();
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> accepted_{0}, refused_hellos_{0}, protocol_errors_{0}, open_{0};

  // The thread's.
  TimePoint accept_again_;
  uint64_t last_connection_ = 0;
  std::list<Connection> connections_;
  absl::flat_hash_map<Incarnation, Peer> peers_;

  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& host, uint16_t port,
                                                                    ControlHello self, const ControlOptions& options,
                                                                    ControlHandler* handler) {
  BATON_ASSIGN_OR_RETURN(auto listener, ListenOn(host, port));
  return std::make_unique<TcpControlServer>(std::move(listener.first), listener.second, std::move(self), options,
                                            handler);
}

}  // namespace baton
