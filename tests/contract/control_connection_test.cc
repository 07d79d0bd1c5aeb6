// The control connection between live ends: hello, requests, silence, death.

#include "common/transport/control_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "common/base/status.h"
#include "tests/contract/child_process.h"
#include "tests/contract/control_recorder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr Incarnation kTarget{1}, kWriter{2};
const char kPeerProgram[] = BATON_BIN_DIR "/transport_peer";

class ControlConnection : public ::testing::Test {
 protected:
  void StartServer(const ControlOptions& options = QuickOptions(),
                   ControlHello self = TestHello(kTarget.value, "target")) {
    server_ = *ControlServer::Start("127.0.0.1", 0, std::move(self), options, &handler_);
  }
  absl::StatusOr<std::unique_ptr<ControlClient>> Connect(const ControlHello& self = TestHello(kWriter.value, "writer"),
                                                         Incarnation expected = kTarget) {
    return ControlClient::Connect("127.0.0.1", server_->port(), self, expected, QuickOptions(),
                                  [this](PeerEvent event) { client_events_.Add(event); });
  }
  // A writer in a process of its own, connected to server_.
  std::unique_ptr<ChildProcess> StartWriter(const std::string& host_id = "same") {
    auto child = std::make_unique<ChildProcess>(
        std::vector<std::string>{kPeerProgram, "control-writer", std::to_string(server_->port()), host_id});
    EXPECT_EQ(child->ReadLine(), "connected");
    return child;
  }
  ControlClient::OnAnswer Record() {
    return [this](absl::StatusOr<AnswerMessage> answer) { answers_.Add(std::move(answer)); };
  }

  RecordingHandler handler_;
  Recorder<PeerEvent> client_events_;
  Recorder<absl::StatusOr<AnswerMessage>> answers_;
  std::unique_ptr<ControlServer> server_;
};

LeaseKey Key(uint64_t lease) { return {LeaseId{lease}, 7, 8}; }

TEST_F(ControlConnection, RequestsReachTheHandlerAndAnswersComeBack) {
  StartServer();
  auto client = *Connect();
  client->Attach({Key(5)}, Record());
  ASSERT_TRUE(answers_.WaitForCount(1));
  const CommitMessage commit{Key(5), 40, {1, 2, 3}, {{0, 99, false}, {1, -1, true}}};
  client->Commit(commit, Record());
  ASSERT_TRUE(answers_.WaitForCount(2));
  client->Fence({Key(6), "aborted"}, Record());
  ASSERT_TRUE(answers_.WaitForCount(3));

  const auto answers = answers_.values();
  EXPECT_EQ(answers[0]->answer, LeaseAnswer::kAttached);
  EXPECT_EQ(answers[1]->answer, LeaseAnswer::kCommitted);
  EXPECT_EQ(answers[2]->answer, LeaseAnswer::kDiscarded);
  EXPECT_EQ(answers[2]->reason, "aborted");
  EXPECT_EQ(answers[2]->lease, LeaseId{6});
  const CommitMessage got = handler_.commits.values()[0];
  EXPECT_EQ(got.key, commit.key);
  EXPECT_EQ(got.token_count, 40u);
  EXPECT_EQ(got.checksums, commit.checksums);
  EXPECT_EQ(got.first_tokens, commit.first_tokens);
}

TEST_F(ControlConnection, AnswersMayComeInAnyOrderAndFromAnyThread) {
  handler_.hold_commits = true;
  StartServer();
  auto client = *Connect();
  client->Commit({Key(1), 0, {}, {}}, Record());
  client->Commit({Key(2), 0, {}, {}}, Record());
  ASSERT_TRUE(handler_.held.WaitForCount(2));
  auto held = handler_.held.values();
  held[1].second({held[1].first, LeaseAnswer::kCommitted, ""});
  ASSERT_TRUE(answers_.WaitForCount(1));
  held[0].second({held[0].first, LeaseAnswer::kRefused, "checksum of block 3"});
  ASSERT_TRUE(answers_.WaitForCount(2));
  EXPECT_EQ(answers_.values()[0]->lease, LeaseId{2});
  EXPECT_EQ(answers_.values()[1]->lease, LeaseId{1});
  EXPECT_EQ(answers_.values()[1]->reason, "checksum of block 3");
}

TEST_F(ControlConnection, CommitOfALongPromptArrivesWhole) {
  StartServer();
  auto client = *Connect();
  CommitMessage commit{Key(1), 32768, std::vector<uint64_t>(1'000'000), {}};
  for (size_t i = 0; i < commit.checksums.size(); ++i) commit.checksums[i] = i * i;
  client->Commit(commit, Record());
  ASSERT_TRUE(answers_.WaitForCount(1));
  EXPECT_EQ(handler_.commits.values()[0].checksums, commit.checksums);
}

TEST_F(ControlConnection, RequestLargerThanAFrameIsRefusedAndTheConnectionLives) {
  StartServer();
  auto client = *Connect();
  client->Commit({Key(1), 0, std::vector<uint64_t>(kMaxControlFrameBytes / 8), {}}, Record());
  client->Attach({Key(1)}, Record());
  ASSERT_TRUE(answers_.WaitForCount(2));
  int refused = 0, attached = 0;
  for (const auto& answer : answers_.values()) {
    if (answer.status().code() == absl::StatusCode::kInvalidArgument) ++refused;
    if (answer.ok() && answer->answer == LeaseAnswer::kAttached) ++attached;
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(attached, 1);
}

TEST_F(ControlConnection, HelloOfAnotherVersionIsRefusedByName) {
  StartServer();
  ControlHello self = TestHello(kWriter.value, "writer");
  self.protocol_version = kControlProtocolVersion + 1;
  const absl::Status status = Connect(self).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusMessage(status), HasSubstr("control protocol " + std::to_string(kControlProtocolVersion)));
  EXPECT_THAT(StatusMessage(status), HasSubstr("speaks " + std::to_string(kControlProtocolVersion + 1)));
}

TEST_F(ControlConnection, TargetOfAnotherVersionIsRefusedByName) {
  ControlHello other = TestHello(kTarget.value, "target");
  other.protocol_version = kControlProtocolVersion + 1;
  StartServer(QuickOptions(), other);
  const absl::Status status = Connect().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusMessage(status),
              HasSubstr("peer speaks control protocol " + std::to_string(kControlProtocolVersion + 1) +
                        ", writer speaks " + std::to_string(kControlProtocolVersion)));
  EXPECT_TRUE(handler_.hellos.values().empty());
}

TEST_F(ControlConnection, HelloOfAnotherLayoutNumericsOrSecretIsRefusedByName) {
  StartServer();
  ControlHello self = TestHello(kWriter.value, "writer");
  self.layout_hash = LayoutHash{12};
  EXPECT_THAT(StatusMessage(Connect(self).status()), HasSubstr("layout hash"));
  self = TestHello(kWriter.value, "writer");
  self.numerics_hash = NumericsHash{23};
  EXPECT_THAT(StatusMessage(Connect(self).status()), HasSubstr("numerics hash"));
  self = TestHello(kWriter.value, "writer");
  self.secret = 34;
  const absl::Status status = Connect(self).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusMessage(status), HasSubstr("secret"));
  EXPECT_TRUE(handler_.hellos.values().empty()) << "the handler is asked only about hellos that fit";
}

TEST_F(ControlConnection, HandlersRefusalReachesTheWriter) {
  handler_.hello_status = FailedPrecondition("draining");
  StartServer();
  const absl::Status status = Connect().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusMessage(status), HasSubstr("draining"));
  EXPECT_EQ(server_->counts().refused_hellos, 1u);
}

TEST_F(ControlConnection, OtherIncarnationMeansTheTargetRestarted) {
  StartServer();
  const absl::Status status = Connect(TestHello(kWriter.value, "writer"), Incarnation{77}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusMessage(status), HasSubstr("restarted"));
}

TEST_F(ControlConnection, NobodyListeningIsUnavailable) {
  StartServer();
  const uint16_t port = server_->port();
  server_.reset();
  const auto client =
      ControlClient::Connect("127.0.0.1", port, TestHello(2, "writer"), kTarget, QuickOptions(), [](PeerEvent) {});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ControlConnection, KilledWriterIsGone) {
  StartServer();
  auto writer = StartWriter();
  writer->Kill();
  EXPECT_TRUE(handler_.events.WaitForValue({kWriter, PeerEvent::kGone}));
}

TEST_F(ControlConnection, KilledWriterOnAnotherHostIsGoneOnceItsKernelAnswersReset) {
  StartServer();
  auto writer = StartWriter("another host");
  writer->Kill();
  EXPECT_TRUE(handler_.events.WaitForValue({kWriter, PeerEvent::kGone}));
}

TEST_F(ControlConnection, StoppedWriterIsSuspectAndRecoversWhenContinued) {
  StartServer();
  auto writer = StartWriter();
  writer->Signal(SIGSTOP);
  ASSERT_TRUE(handler_.events.WaitForValue({kWriter, PeerEvent::kSuspect}));
  writer->Signal(SIGCONT);
  ASSERT_TRUE(handler_.events.WaitForValue({kWriter, PeerEvent::kRecovered}));
  writer->Kill();
  ASSERT_TRUE(handler_.events.WaitForValue({kWriter, PeerEvent::kGone}));
}

TEST_F(ControlConnection, WriterKilledWhileSuspectIsGone) {
  StartServer();
  auto writer = StartWriter();
  writer->Signal(SIGSTOP);
  ASSERT_TRUE(handler_.events.WaitForValue({kWriter, PeerEvent::kSuspect}));
  writer->Kill();
  EXPECT_TRUE(handler_.events.WaitForValue({kWriter, PeerEvent::kGone}));
}

TEST_F(ControlConnection, PeerWithTwoConnectionsIsGoneOnlyWithItsLast) {
  StartServer();
  auto first = *Connect();
  auto second = *Connect();
  first.reset();
  const TimePoint deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (server_->counts().connections != 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  second->Attach({Key(1)}, Record());
  ASSERT_TRUE(answers_.WaitForCount(1));
  EXPECT_TRUE(handler_.events.values().empty());
  second.reset();
  EXPECT_TRUE(handler_.events.WaitForValue({kWriter, PeerEvent::kGone}));
  EXPECT_EQ(handler_.events.values().size(), 1u);
}

TEST_F(ControlConnection, EndOfTheTargetFailsWhatWaitsAndWhatFollows) {
  handler_.hold_commits = true;
  StartServer();
  auto client = *Connect();
  client->Commit({Key(1), 0, {}, {}}, Record());
  ASSERT_TRUE(handler_.held.WaitForCount(1));
  server_.reset();
  ASSERT_TRUE(answers_.WaitForCount(1));
  EXPECT_EQ(answers_.values()[0].status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(client_events_.WaitForValue(PeerEvent::kGone));
  EXPECT_FALSE(client->connected());
  client->Attach({Key(1)}, Record());
  ASSERT_TRUE(answers_.WaitForCount(2));
  EXPECT_EQ(answers_.values()[1].status().code(), absl::StatusCode::kUnavailable);
  // An answer that comes after the server went is dropped.
  handler_.held.values()[0].second({LeaseId{1}, LeaseAnswer::kCommitted, ""});
}

TEST_F(ControlConnection, DestroyingTheClientAnswersWhatWaits) {
  handler_.hold_commits = true;
  StartServer();
  auto client = *Connect();
  client->Commit({Key(1), 0, {}, {}}, Record());
  ASSERT_TRUE(handler_.held.WaitForCount(1));
  client.reset();
  ASSERT_EQ(answers_.values().size(), 1u);
  EXPECT_EQ(answers_.values()[0].status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ControlConnection, StoppedTargetIsSuspectToTheWriterAndKilledItIsGone) {
  ChildProcess target({kPeerProgram, "control-target"});
  const auto port = static_cast<uint16_t>(std::stoi(target.ReadLine().value_or("0")));
  auto client = ControlClient::Connect("127.0.0.1", port, TestHello(kWriter.value, "writer"), kTarget, QuickOptions(),
                                       [this](PeerEvent event) { client_events_.Add(event); });
  ASSERT_TRUE(client.ok()) << client.status();
  target.Signal(SIGSTOP);
  ASSERT_TRUE(client_events_.WaitForValue(PeerEvent::kSuspect));
  target.Signal(SIGCONT);
  ASSERT_TRUE(client_events_.WaitForValue(PeerEvent::kRecovered));
  target.Signal(SIGSTOP);
  (*client)->Attach({Key(1)}, Record());
  target.Kill();
  ASSERT_TRUE(client_events_.WaitForValue(PeerEvent::kGone));
  ASSERT_TRUE(answers_.WaitForCount(1));
  EXPECT_EQ(answers_.values()[0].status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton
