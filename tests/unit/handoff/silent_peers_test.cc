// Peers that misbehave: writers that fall silent, targets that never answer.

#include <sys/socket.h>

#include "common/transport/framed_socket.h"
#include "tests/unit/handoff/handoff_rig.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// Of a writer on this host that fits.
ControlHello HelloTo(const TargetDescriptor& target) {
  ControlHello hello;
  hello.incarnation = Incarnation{RandomU64()};
  hello.layout_hash = target.layout_hash;
  hello.numerics_hash = target.numerics_hash;
  hello.secret = target.secret;
  hello.name = "writer";
  hello.host_id = LocalHostId();
  return hello;
}

// A prefill worker's control connection by hand: attaches, then does nothing, no heartbeat either.
class SilentWriter {
 public:
  explicit SilentWriter(const LeaseOffer& offer)
      : socket_([&] {
          const TargetDescriptor target = DecodeTargetDescriptor(offer.target).value();
          return FramedSocket(ConnectTo(target.control_host, target.control_port,
                                        std::chrono::steady_clock::now() + absl::ToChronoSeconds(kTestPatience))
                                  .value());
        }()) {
    const TargetDescriptor target = DecodeTargetDescriptor(offer.target).value();
    socket_.Queue(EncodeFrame(FrameType::kHello, EncodeHello(HelloTo(target))));
    socket_.Queue(EncodeFrame(FrameType::kAttach, EncodeAttach(1, {offer.key})));
    EXPECT_EQ(socket_.Write(), SocketState::kOpen);
  }

  bool WaitForAnswer(LeaseAnswer answer) {
    std::vector<Frame> frames;
    return Eventually([&] {
      EXPECT_EQ(socket_.Read(&frames), SocketState::kOpen);
      for (const Frame& frame : frames) {
        if (frame.type == FrameType::kAnswer && DecodeAnswer(frame.body)->message.answer == answer) return true;
      }
      return false;
    });
  }
  void Commit(const LeaseKey& key) {
    socket_.Queue(EncodeFrame(FrameType::kCommit, EncodeCommit(2, {key, 20, {1, 2}, {{0, 1, false}}})));
    EXPECT_EQ(socket_.Write(), SocketState::kOpen);
  }

 private:
  FramedSocket socket_;
};

ReceiverOptions QuickReceiver() {
  ReceiverOptions options;
  options.control = QuickOptions();
  return options;
}

TEST(SilentWriter, PD_02_ItsBlocksStayQuarantinedUntilItIsGone) {
  DecodeEnd decode(std::make_shared<LocalNetwork>(), false, QuickReceiver());
  const LeaseOffer offer = decode.Reserve(20).value();
  auto writer = std::make_unique<SilentWriter>(offer);
  ASSERT_TRUE(writer->WaitForAnswer(LeaseAnswer::kAttached));
  // The request learns it from the missing heartbeats, long before its lease (whose clock stands still) expires.
  EXPECT_EQ(decode.WaitForEnd().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(decode.pool.counts().quarantined, 3u);
  writer.reset();
  EXPECT_TRUE(Eventually([&] { return decode.pool.counts().free == 64; }));
  EXPECT_EQ(decode.receiver->open_leases(), 0u);
}

TEST(SilentWriter, PD_02_ThatWakesAndCommitsIsToldDiscarded) {
  DecodeEnd decode(std::make_shared<LocalNetwork>(), false, QuickReceiver());
  const LeaseOffer offer = decode.Reserve(20).value();
  SilentWriter writer(offer);
  ASSERT_TRUE(writer.WaitForAnswer(LeaseAnswer::kAttached));
  EXPECT_EQ(decode.WaitForEnd().status().code(), absl::StatusCode::kUnavailable);
  writer.Commit(offer.key);
  EXPECT_TRUE(writer.WaitForAnswer(LeaseAnswer::kDiscarded));
  EXPECT_EQ(decode.pool.counts().free, 64u);
  EXPECT_EQ(decode.ends.values().size(), 1u);
}

TEST(SilentWriter, QuarantineBeyondItsShareAsksForARestart) {
  ReceiverOptions options = QuickReceiver();
  options.max_quarantined_share = 2.0 / 64;
  DecodeEnd decode(std::make_shared<LocalNetwork>(), false, options);
  const LeaseOffer offer = decode.Reserve(20).value();
  SilentWriter writer(offer);
  EXPECT_FALSE(decode.receiver->must_restart());
  EXPECT_FALSE(decode.WaitForEnd().ok());
  EXPECT_TRUE(decode.receiver->must_restart());
  EXPECT_EQ(decode.Reserve(20).status().code(), absl::StatusCode::kUnavailable);
}

TEST(Receiver, PD_06_DuplicateCommitOnAnotherConnectionGetsTheSameAnswer) {
  DecodeEnd decode(std::make_shared<LocalNetwork>());
  const LeaseOffer offer = decode.Reserve(20).value();
  const TargetDescriptor target = DecodeTargetDescriptor(offer.target).value();
  const ControlHello hello = HelloTo(target);
  const auto connect = [&] {
    return ControlClient::Connect(target.control_host, target.control_port, hello, target.incarnation, {},
                                  [](PeerEvent) {})
        .value();
  };
  Recorder<LeaseAnswer> answers;
  const auto record = [&](absl::StatusOr<AnswerMessage> answer) {
    ASSERT_TRUE(answer.ok());
    answers.Add(answer->answer);
  };
  const uint64_t zeros = Checksum(decode.Block(offer.blocks[0]));
  const CommitMessage commit{offer.key, 20, {zeros, zeros}, {{0, 1, false}}};
  auto first = connect();
  first->Attach({offer.key}, record);
  first->Commit(commit, record);
  ASSERT_TRUE(answers.WaitForCount(2));
  auto second = connect();
  second->Commit(commit, record);
  ASSERT_TRUE(answers.WaitForCount(3));
  EXPECT_EQ(answers.values(),
            (std::vector<LeaseAnswer>{LeaseAnswer::kAttached, LeaseAnswer::kCommitted, LeaseAnswer::kCommitted}));
  EXPECT_EQ(decode.ends.values().size(), 1u);
}

// A target played by the test, in front of a real pool.
struct ScriptedTarget {
  explicit ScriptedTarget(std::shared_ptr<LocalNetwork> network, ControlHandler* handler)
      : transport(MakeLocalTransport(std::move(network), false)) {
    EXPECT_TRUE(transport->AllocatePool(64 * kTinyLayout.BytesPerBlock()).ok());
    Listen(handler, 0);
  }
  void Listen(ControlHandler* handler, uint16_t port) {
    ControlHello hello;
    hello.incarnation = incarnation;
    hello.layout_hash = kTinyLayout.Hash();
    hello.numerics_hash = kNumerics;
    hello.host_id = host_id;
    server = ControlServer::Start("127.0.0.1", port, hello, {}, handler).value();
  }
  LeaseOffer Offer() const {
    TargetDescriptor target;
    target.incarnation = incarnation;
    target.layout_hash = kTinyLayout.Hash();
    target.numerics_hash = kNumerics;
    target.control_host = "127.0.0.1";
    target.control_port = server->port();
    target.transport = "local";
    target.transport_descriptor = transport->Describe().value();
    return LeaseOffer{{LeaseId{1}, 2, 3}, 0, {4}, Encode(target)};
  }

  const Incarnation incarnation{RandomU64()};
  std::string host_id = LocalHostId();
  std::unique_ptr<KvTransport> transport;
  std::unique_ptr<ControlServer> server;
};

// A target's control connection by hand, so that it can be dropped while the listener stays.
class HandmadeTarget {
 public:
  explicit HandmadeTarget(const ControlHello& hello) : hello_(hello), listener_(ListenOn("127.0.0.1", 0).value()) {}
  uint16_t port() const { return listener_.second; }

  // Accepts the next connection, instead of the one before, and welcomes it.
  bool Accept() {
    int fd = -1;
    if (!Eventually([&] {
          fd = accept4(listener_.first.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
          return fd >= 0;
        })) {
      return false;
    }
    socket_ = std::make_unique<FramedSocket>(UniqueFd(fd));
    if (Next(FrameType::kHello).empty()) return false;
    socket_->parser().set_max_frame_bytes(kMaxControlFrameBytes);
    return Send(FrameType::kHello, EncodeHello(hello_)) && Send(FrameType::kWelcome, {});
  }
  void Drop() { socket_.reset(); }
  // The body of the next frame of that type; others are skipped. Empty when none comes.
  std::string Next(FrameType type) {
    std::string body;
    Eventually([&] {
      EXPECT_EQ(socket_->Read(&frames_), SocketState::kOpen);
      for (const Frame& frame : std::exchange(frames_, {})) {
        if (frame.type == type) body = frame.body;
      }
      return !body.empty();
    });
    return body;
  }
  bool Send(FrameType type, const std::string& body) {
    socket_->Queue(EncodeFrame(type, body));
    return socket_->Write() == SocketState::kOpen;
  }

 private:
  const ControlHello hello_;
  const std::pair<UniqueFd, uint16_t> listener_;
  std::unique_ptr<FramedSocket> socket_;
  std::vector<Frame> frames_;
};

TEST(Sender, LostAnswerToACommitIsAskedForAgainOnANewConnection) {
  const auto network = std::make_shared<LocalNetwork>();
  DecodeEnd pool(network);  // lends its pool
  LeaseOffer offer = pool.Reserve(16).value();
  TargetDescriptor descriptor = DecodeTargetDescriptor(offer.target).value();
  ControlHello hello;
  hello.incarnation = descriptor.incarnation;
  hello.layout_hash = descriptor.layout_hash;
  hello.numerics_hash = descriptor.numerics_hash;
  hello.host_id = "another host";  // its end of file proves nothing
  HandmadeTarget target(hello);
  descriptor.control_port = target.port();
  offer.target = Encode(descriptor);

  PrefillEnd prefill(network);
  const auto handoff = prefill.Begin(offer);
  handoff->PushBlocks(16, Blocks({0}));
  handoff->Commit(16, {{0, 1, false}});
  ASSERT_TRUE(target.Accept());
  const auto attach = DecodeAttach(target.Next(FrameType::kAttach));
  ASSERT_TRUE(attach.ok());
  ASSERT_TRUE(
      target.Send(FrameType::kAnswer, EncodeAnswer(attach->request, {offer.key.lease, LeaseAnswer::kAttached, ""})));
  const auto commit = DecodeCommit(target.Next(FrameType::kCommit));
  ASSERT_TRUE(commit.ok());
  target.Drop();

  ASSERT_TRUE(target.Accept());
  const auto again = DecodeCommit(target.Next(FrameType::kCommit));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->message.key, commit->message.key);
  EXPECT_EQ(again->message.checksums, commit->message.checksums);
  ASSERT_TRUE(
      target.Send(FrameType::kAnswer, EncodeAnswer(again->request, {offer.key.lease, LeaseAnswer::kCommitted, ""})));
  const HandoffResult result = prefill.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kCommitted) << result.reason;
}

TEST(Sender, FenceThatCannotBeSentIsOwed) {
  const auto network = std::make_shared<LocalNetwork>();
  RecordingHandler handler;
  ScriptedTarget target(network, &handler);
  target.host_id = "another host";
  target.server.reset();
  target.Listen(&handler, 0);
  PrefillEnd prefill(network);
  prefill.transport.valve().Hold();
  const auto handoff = prefill.Begin(target.Offer());
  handoff->PushBlocks(16, Blocks({0}));
  ASSERT_TRUE(prefill.transport.valve().WaitForHeld(1));
  target.server.reset();
  const HandoffResult result = prefill.WaitForResult();
  EXPECT_EQ(result.outcome, HandoffOutcome::kFailed);
  EXPECT_FALSE(result.fence_delivered);
}

// Attaches, and never says a word more.
class MuteHandler final : public ControlHandler {
 public:
  absl::Status OnHello(const ControlHello&) override { return absl::OkStatus(); }
  void OnPeerEvent(Incarnation, PeerEvent) override {}
  void OnAttach(Incarnation, const AttachMessage&, Answer answer) override { attaches.Add(std::move(answer)); }
  void OnCommit(Incarnation, CommitMessage, Answer answer) override { kept.Add(std::move(answer)); }
  void OnFence(Incarnation, const FenceMessage&, Answer answer) override { kept.Add(std::move(answer)); }
  Recorder<Answer> attaches, kept;
};

TEST(Sender, PD_12_MuteTargetEndsItsHandoffsByDeadline) {
  const auto network = std::make_shared<LocalNetwork>();
  MuteHandler handler;
  ScriptedTarget target(network, &handler);
  FakeClock clock;
  HeldTransport transport(MakeLocalTransport(network, false));
  const auto memory = transport.AllocatePool(8 * kTinyLayout.BytesPerBlock()).value();
  HostPool pool(kTinyLayout, memory);
  auto sender = HandoffSender::Create({}, "prefill", kNumerics, Incarnation{RandomU64()}, &pool, &transport, &clock);
  Recorder<HandoffResult> results;
  const auto handoff = sender->Begin(target.Offer(), [&](const HandoffResult& result) { results.Add(result); });
  ASSERT_TRUE(handler.attaches.WaitForCount(1));
  clock.Advance(std::chrono::seconds(31));
  ASSERT_TRUE(results.WaitForCount(1));
  EXPECT_EQ(results.values()[0].outcome, HandoffOutcome::kFailed);
  EXPECT_FALSE(results.values()[0].fence_delivered);
  EXPECT_THAT(results.values()[0].reason, HasSubstr("does not answer"));
}

// A listener that accepts and says nothing: connecting takes its whole time-out.
TEST(Sender, PD_12_TargetThatDoesNotAnswerHoldsUpNoOther) {
  const auto network = std::make_shared<LocalNetwork>();
  DecodeEnd decode(network);
  PrefillEnd prefill(network);
  auto listener = ListenOn("127.0.0.1", 0).value();
  LeaseOffer mute = decode.Reserve(16).value();
  TargetDescriptor target = DecodeTargetDescriptor(mute.target).value();
  target.incarnation = Incarnation{RandomU64()};
  target.control_port = listener.second;
  mute.target = Encode(target);
  Recorder<HandoffResult> mute_results;
  const auto stuck = prefill.sender->Begin(mute, [&](const HandoffResult& result) { mute_results.Add(result); });
  const auto stuck_too = prefill.sender->Begin(mute, [&](const HandoffResult& result) { mute_results.Add(result); });

  const auto handoff = prefill.Begin(decode.Reserve(16).value());
  handoff->PushBlocks(16, Blocks({0}));
  handoff->Commit(16, {{0, 1, false}});
  EXPECT_EQ(prefill.WaitForResult().outcome, HandoffOutcome::kCommitted);
  EXPECT_TRUE(mute_results.values().empty());
  // An abort does not wait for the connect either, and gives the source blocks back.
  stuck->Abort("client left");
  ASSERT_TRUE(mute_results.WaitForCount(1));
  EXPECT_EQ(mute_results.values()[0].outcome, HandoffOutcome::kFenced);
  ASSERT_TRUE(mute_results.WaitForCount(2));
  EXPECT_EQ(mute_results.values()[1].outcome, HandoffOutcome::kFailed);
}

}  // namespace
}  // namespace baton
