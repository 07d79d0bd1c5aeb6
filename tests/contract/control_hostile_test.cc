// Whatever bytes arrive on the control port: the connection that brought them closes, is counted, and nothing else
// changes.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "common/base/wire.h"
#include "common/transport/control_codec.h"
#include "common/transport/framed_socket.h"
#include "tests/contract/control_recorder.h"
#include "tests/contract/raw_socket.h"
#include "tests/fakes/no_threads.h"

namespace baton {
namespace {

class ControlHostile : public ::testing::Test {
 protected:
  ControlHostile() { Start(std::chrono::seconds(60)); }
  void Start(Duration hello_timeout) {
    ControlOptions options = QuickOptions();
    options.connect_timeout = hello_timeout;
    server_ = *ControlServer::Start("127.0.0.1", 0, TestHello(1, "target"), options, &handler_);
  }

  UniqueFd Connect() {
    return *ConnectTo("127.0.0.1", server_->port(),
                      std::chrono::steady_clock::now() + absl::ToChronoSeconds(kTestPatience));
  }
  static std::string GoodHello() { return EncodeFrame(FrameType::kHello, EncodeHello(TestHello(2, "writer"))); }

  void ExpectClosedAndCounted(const std::string& bytes) {
    const uint64_t before = server_->counts().protocol_errors;
    UniqueFd fd = Connect();
    SendRaw(fd, bytes);
    EXPECT_TRUE(ClosedByPeer(fd));
    EXPECT_EQ(server_->counts().protocol_errors, before + 1);
  }
  void ExpectServes() {
    Recorder<absl::StatusOr<AnswerMessage>> answers;
    auto client = ControlClient::Connect("127.0.0.1", server_->port(), TestHello(3, "honest"), Incarnation{1},
                                         QuickOptions(), [](PeerEvent) {});
    ASSERT_TRUE(client.ok()) << client.status();
    (*client)->Attach({{LeaseId{1}, 1, 1}}, [&](auto answer) { answers.Add(std::move(answer)); });
    ASSERT_TRUE(answers.WaitForCount(1));
    EXPECT_TRUE(answers.values()[0].ok());
  }

  RecordingHandler handler_;
  std::unique_ptr<ControlServer> server_;
};

std::string Header(uint32_t length, uint8_t type) {
  WireWriter out;
  out.Put(length);
  out.Put(type);
  return out.Take();
}

TEST_F(ControlHostile, BadFramesCloseTheirConnectionOnly) {
  ExpectClosedAndCounted(Header(0, 1));                                             // empty
  ExpectClosedAndCounted(Header(0xffffffff, 1));                                    // 4 GiB promised
  ExpectClosedAndCounted(Header(kMaxHelloFrameBytes + 1, 1));                       // too long for a hello
  ExpectClosedAndCounted(EncodeFrame(static_cast<FrameType>(200), "x"));            // unknown type
  ExpectClosedAndCounted(EncodeFrame(FrameType::kHeartbeat, ""));                   // before the hello
  ExpectClosedAndCounted(EncodeFrame(FrameType::kHello, "\x01\x00\x00\x00short"));  // hello cut short
  ExpectClosedAndCounted("GET / HTTP/1.1\r\n\r\n");                                 // another protocol
  ExpectClosedAndCounted(GoodHello() + GoodHello());                                // a second hello
  ExpectClosedAndCounted(GoodHello() + EncodeFrame(FrameType::kAnswer, "x"));       // a target's frame from a writer
  ExpectClosedAndCounted(GoodHello() + Header(kMaxControlFrameBytes + 1, 5));       // too long for any frame
  ExpectClosedAndCounted(GoodHello() + EncodeFrame(FrameType::kAttach, "short"));
  ExpectServes();
}

TEST_F(ControlHostile, WithoutAThreadForItAClientIsNotMade) {
  {
    const NoThreads none;
    const auto client = ControlClient::Connect("127.0.0.1", server_->port(), TestHello(2, "writer"), Incarnation{1},
                                               QuickOptions(), [](PeerEvent) {});
    EXPECT_TRUE(absl::IsResourceExhausted(client.status())) << client.status();
  }
  ExpectServes();
}

TEST_F(ControlHostile, CountsInsideFramesAreCheckedAgainstTheirBytes) {
  WireWriter checksums;
  for (int i = 0; i < 4; ++i) checksums.Put(uint64_t{1});  // request, lease, generation, secret
  checksums.Put(uint32_t{16});                             // token count
  checksums.Put(uint32_t{0xfffffff0});                     // checksums that are not there
  ExpectClosedAndCounted(GoodHello() + EncodeFrame(FrameType::kCommit, checksums.Take()));
  WireWriter tokens;
  for (int i = 0; i < 4; ++i) tokens.Put(uint64_t{1});
  tokens.Put(uint32_t{16});
  tokens.Put(uint32_t{0});
  tokens.Put(uint32_t{0xfffffff0});  // first tokens that are not there
  ExpectClosedAndCounted(GoodHello() + EncodeFrame(FrameType::kCommit, tokens.Take()));
  EXPECT_TRUE(handler_.commits.values().empty());
  ExpectServes();
}

TEST_F(ControlHostile, ALivingPeerThatSentGarbageIsLostNotGone) {
  UniqueFd fd = Connect();
  SendRaw(fd, GoodHello() + Header(0, 5));
  EXPECT_TRUE(ClosedByPeer(fd));
  EXPECT_TRUE(handler_.events.WaitForValue({Incarnation{2}, PeerEvent::kLost}));
}

TEST_F(ControlHostile, FrameInSingleBytesIsOneFrame) {
  UniqueFd fd = Connect();
  for (const char byte : GoodHello()) SendRaw(fd, std::string(1, byte));
  EXPECT_TRUE(handler_.hellos.WaitForValue("writer"));
}

TEST_F(ControlHostile, FrameThatNeverEndsIsClosedWhenTheHelloIsOverdue) {
  Start(std::chrono::seconds(1));
  UniqueFd fd = Connect();
  SendRaw(fd, GoodHello().substr(0, 20));
  EXPECT_TRUE(ClosedByPeer(fd));
  ExpectServes();
}

TEST_F(ControlHostile, RandomBytesNeverStopTheServer) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    // Every other one gets past the hello, with a plausible length and type, so that bodies are tried too.
    if (round % 2 == 0) bytes = GoodHello() + EncodeFrame(static_cast<FrameType>(4 + random() % 5), bytes);
    UniqueFd fd = Connect();
    SendRaw(fd, bytes);
  }
  ExpectServes();
}

TEST_F(ControlHostile, TargetThatAnswersNonsenseIsUnavailable) {
  auto listener = *ListenOn("127.0.0.1", 0);
  std::thread target([&] {
    pollfd entry{listener.first.get(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 60'000), 1);
    UniqueFd fd(accept(listener.first.get(), nullptr, nullptr));
    SendRaw(fd, "SSH-2.0-OpenSSH_9.2p1\r\n");
    EXPECT_TRUE(ClosedByPeer(fd));
  });
  const auto client = ControlClient::Connect("127.0.0.1", listener.second, TestHello(2, "writer"), Incarnation{1},
                                             QuickOptions(), [](PeerEvent) {});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  target.join();
}

TEST_F(ControlHostile, SilentTargetIsUnavailableAfterTheConnectTimeout) {
  auto listener = *ListenOn("127.0.0.1", 0);  // accepts by its backlog, never answers
  ControlOptions options = QuickOptions();
  options.connect_timeout = std::chrono::milliseconds(300);
  const auto client = ControlClient::Connect("127.0.0.1", listener.second, TestHello(2, "writer"), Incarnation{1},
                                             options, [](PeerEvent) {});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton
