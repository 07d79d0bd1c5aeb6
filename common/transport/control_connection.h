#pragma once

// One TCP connection for each pair of peers, shared by all transports: hello, heartbeats, attach, commit, fence,
// answers. Its end of file is the fastest news of a death; its silence makes the peer suspect.
//
// Threads: a server and a client own one I/O thread each, which makes every callback. Callbacks must not block and must
// not destroy the object that calls them.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/transport/control_messages.h"

namespace baton {

struct ControlOptions {
  Duration heartbeat = std::chrono::milliseconds(500);
  Duration suspect_after = std::chrono::seconds(3);    // silence; must exceed two heartbeats
  Duration connect_timeout = std::chrono::seconds(5);  // connect and hello
  Duration lost_after = std::chrono::seconds(30);      // bytes unacknowledged for so long end the connection: kLost
  // Of a sender and a receiver: hand over between workers of equal layout and unequal numerics, if the peer does too.
  bool allow_mixed_numerics = false;
};

enum class PeerEvent : uint8_t {
  kSuspect,    // silent for suspect_after; it may wake and write
  kRecovered,  // heard again on the same connection
  kGone,       // proof of exit: end of file or reset (for another host: reset by it); no write can follow
  kLost,       // connection failed without proof (another host timed out): it may still write
};

// The target's side: what a decode worker does with messages. Called on the server's thread.
class ControlHandler {
 public:
  using Answer = std::function<void(AnswerMessage)>;  // callable from any thread, once; a no-op when the peer is gone
  virtual ~ControlHandler() = default;
  // Versions and hashes fit, and the secret is the server's unless that is 0. Not OK: refused, the text goes to
  // the peer.
  virtual absl::Status OnHello(const ControlHello& hello) = 0;
  // A peer with several connections is suspect when all are silent, and gone or lost when its last one ends.
  virtual void OnPeerEvent(Incarnation peer, PeerEvent event) = 0;
  virtual void OnAttach(Incarnation peer, const AttachMessage& message, Answer answer) = 0;
  virtual void OnCommit(Incarnation peer, CommitMessage message, Answer answer) = 0;
  virtual void OnFence(Incarnation peer, const FenceMessage& message, Answer answer) = 0;
};

struct ControlCounts {
  uint64_t accepted = 0;
  uint64_t refused_hellos = 0;   // version, hashes, secret or the handler
  uint64_t protocol_errors = 0;  // hostile or broken frames; each closed its connection
  uint64_t connections = 0;      // open now, hello done
};

class ControlServer {
 public:
  // Listens on host:port (port 0: any). `handler` outlives the server.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(const std::string& host, uint16_t port, ControlHello self,
                                                              const ControlOptions& options, ControlHandler* handler);
  virtual ~ControlServer() = default;
  virtual uint16_t port() const = 0;
  virtual ControlCounts counts() const = 0;
};

// The writer's side of one target. Its destruction reads there as an exit (kGone), so close the KvSession first.
class ControlClient {
 public:
  using OnAnswer = std::function<void(absl::StatusOr<AnswerMessage>)>;  // UNAVAILABLE when the connection ends first
  using OnPeerEvent = std::function<void(PeerEvent)>;

  // Connects and says hello; `expected` is the target's incarnation as its descriptor gave it (another: UNAVAILABLE,
  // "restarted"). FAILED_PRECONDITION when the target refuses the hello.
  static absl::StatusOr<std::unique_ptr<ControlClient>> Connect(const std::string& host, uint16_t port,
                                                                const ControlHello& self, Incarnation expected,
                                                                const ControlOptions& options, OnPeerEvent on_event);
  virtual ~ControlClient() = default;
  // Requests are answered in any order; each callback is called exactly once.
  virtual void Attach(const AttachMessage& message, OnAnswer on_answer) = 0;
  virtual void Commit(const CommitMessage& message, OnAnswer on_answer) = 0;
  virtual void Fence(const FenceMessage& message, OnAnswer on_answer) = 0;
  virtual bool connected() const = 0;
};

}  // namespace baton
