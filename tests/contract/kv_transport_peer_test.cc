// What kv_transport.h promises when the other end is a process that dies, stops or comes back.

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <thread>

#include "absl/strings/escaping.h"
#include "common/base/hash.h"
#include "common/transport/kv_transport.h"
#include "tests/contract/child_process.h"
#include "tests/contract/contract_pool.h"
#include "tests/contract/control_recorder.h"
#include "tests/contract/test_gate.h"
#include "tests/contract/transport_modes.h"

namespace baton {
namespace {

#ifndef BATON_PEER_PROGRAM
#define BATON_PEER_PROGRAM "transport_peer"
#endif
const char kPeerProgram[] = BATON_BIN_DIR "/" BATON_PEER_PROGRAM;
constexpr uint64_t kPoolBytes = 2 * kWriterBytes;
constexpr WriteStamp kStamp{LeaseId{1}, 1};

class KvTransportPeer : public ::testing::TestWithParam<TransportMode> {
 protected:
  struct Target {
    std::unique_ptr<ChildProcess> process;
    std::string descriptor;
  };

  KvTransportPeer() {
    transport_ = *MakeTransport(GetParam().Options());
    transport_->SetWriteGate(&gate_);
    gate_.Open(kStamp.lease);
    pool_ = *ContractPool::Make(GetParam(), *transport_, kPoolBytes);
  }
  void FillPool() {
    std::vector<std::byte> bytes(kPoolBytes);
    for (uint64_t i = 0; i < kPoolBytes; ++i) bytes[i] = static_cast<std::byte>(i * 131 >> 8 ^ i);
    pool_.Write(0, bytes);
  }
  static Target StartTarget() {
    Target target;
    target.process = std::make_unique<ChildProcess>(
        std::vector<std::string>{kPeerProgram, "target", GetParam().label, std::to_string(kPoolBytes)});
    target.descriptor = absl::HexStringToBytes(target.process->ReadLine().value_or(""));
    EXPECT_FALSE(target.descriptor.empty());
    return target;
  }
  std::unique_ptr<KvSession> Connect(const Target& target) {
    auto session = transport_->Connect(target.descriptor, pool_.source());
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  PutRun Everything() const { return pool_.Run(0, 0, kPoolBytes); }
  bool HasEverything(Target& target) const {
    return target.process->Ask("checksum 0 " + std::to_string(kPoolBytes)) == std::to_string(Checksum(pool_.Read()));
  }
  // Puts and flushes without end until a call says that the session is over.
  absl::Status WriteUntilTheEnd(KvSession& session) {
    const PutRun run = Everything();
    const TimePoint deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      if (const absl::Status status = session.Put(kStamp, {&run, 1}); !status.ok()) return status;
      const size_t before = flushes_.values().size();
      session.Flush([this](const absl::Status& status) { flushes_.Add(status); });
      if (!flushes_.WaitForCount(before + 1)) break;
      if (!flushes_.values().back().ok()) return flushes_.values().back();
    }
    return absl::OkStatus();
  }

  TestGate gate_;
  Recorder<absl::Status> flushes_;
  ContractPool pool_;  // outlives the transport
  std::unique_ptr<KvTransport> transport_;
};

TEST_P(KvTransportPeer, PutsArriveInAnotherProcess) {
  FillPool();
  Target target = StartTarget();
  auto session = Connect(target);
  EXPECT_EQ(session->lane(), GetParam().lane);
  const PutRun run = Everything();
  ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
  session->Flush([this](const absl::Status& status) { flushes_.Add(status); });
  ASSERT_TRUE(flushes_.WaitForCount(1));
  EXPECT_TRUE(flushes_.values()[0].ok());
  EXPECT_TRUE(HasEverything(target));
}

TEST_P(KvTransportPeer, TargetKilledMidTransferEndsTheSessionAndItsSuccessorServes) {
  FillPool();
  Target target = StartTarget();
  auto session = Connect(target);
  std::thread killer([&] {
    flushes_.WaitForCount(3);  // the transfer is well under way
    target.process->Kill();
  });
  const absl::Status end = WriteUntilTheEnd(*session);
  killer.join();
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable) << end;
  const PutRun run = Everything();
  EXPECT_EQ(session->Put(kStamp, {&run, 1}).code(), absl::StatusCode::kUnavailable);
  session.reset();
  EXPECT_EQ(transport_->Connect(target.descriptor).status().code(), absl::StatusCode::kUnavailable);

  Target successor = StartTarget();
  flushes_.Clear();
  session = Connect(successor);
  ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
  session->Flush([this](const absl::Status& status) { flushes_.Add(status); });
  ASSERT_TRUE(flushes_.WaitForCount(1));
  EXPECT_TRUE(flushes_.values()[0].ok());
  EXPECT_TRUE(HasEverything(successor));
}

TEST_P(KvTransportPeer, IdleSessionLearnsOfItsTargetsDeath) {
  Target target = StartTarget();
  auto session = Connect(target);
  target.process->Kill();
  const TimePoint deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (session->Put(kStamp, {}).ok() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(session->Put(kStamp, {}).code(), absl::StatusCode::kUnavailable);
}

TEST_P(KvTransportPeer, StoppedTargetGetsEverythingWhenItContinues) {
  FillPool();
  Target target = StartTarget();
  auto session = Connect(target);
  target.process->Signal(SIGSTOP);
  const PutRun run = Everything();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
  session->Flush([this](const absl::Status& status) { flushes_.Add(status); });
  if (GetParam().refusable) {
    EXPECT_TRUE(flushes_.values().empty()) << "only the target's answer can end a flush";
  } else {
    ASSERT_TRUE(flushes_.WaitForCount(1)) << "one-sided puts do not wait for the target";
  }
  target.process->Signal(SIGCONT);
  ASSERT_TRUE(flushes_.WaitForCount(1));
  EXPECT_TRUE(flushes_.values()[0].ok());
  EXPECT_TRUE(HasEverything(target));
}

TEST_P(KvTransportPeer, SessionToAStoppedTargetCloses) {
  Target target = StartTarget();
  auto session = Connect(target);
  target.process->Signal(SIGSTOP);
  const PutRun run = Everything();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
  session->Flush([this](const absl::Status& status) { flushes_.Add(status); });
  session.reset();
  EXPECT_EQ(flushes_.values().size(), 1u);
  target.process->Signal(SIGCONT);
  session = Connect(target);
}

TEST_P(KvTransportPeer, TransportGoesWhileItsTargetIsStopped) {
  Target target = StartTarget();
  auto session = Connect(target);
  target.process->Signal(SIGSTOP);
  const PutRun run = Everything();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
  session.reset();
  transport_.reset();
  target.process->Signal(SIGCONT);
  transport_ = *MakeTransport(GetParam().Options());
  EXPECT_TRUE(transport_->Connect(target.descriptor).ok()) << "the target serves the next writer";
}

TEST_P(KvTransportPeer, StoppedTargetDoesNotHoldAConnectForEver) {
  Target target = StartTarget();
  target.process->Signal(SIGSTOP);
  EXPECT_EQ(transport_->Connect(target.descriptor).status().code(), absl::StatusCode::kUnavailable);
  target.process->Signal(SIGCONT);
  EXPECT_TRUE(transport_->Connect(target.descriptor).ok());
}

TEST_P(KvTransportPeer, WriterKilledMidTransferLeavesTheTargetServing) {
  const std::string descriptor = absl::BytesToHexString(*transport_->Describe());
  for (int round = 0; round < 3; ++round) {
    ChildProcess writer({kPeerProgram, "writer", GetParam().label, descriptor});
    ASSERT_EQ(writer.ReadLine(), "writing");
    writer.Kill();
  }
  // What was sent before the kill may still be arriving.
  gate_.Close(kStamp.lease);
  const std::vector<std::byte> bytes = pool_.Read();
  for (uint64_t i = 0; i < kPoolBytes; ++i) {
    ASSERT_EQ(bytes[i], i < kWriterBytes ? std::byte{1} : std::byte{0}) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, KvTransportPeer, ::testing::ValuesIn(ProcessTransportModes()),
                         [](const auto& info) { return info.param.label; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(KvTransportPeer);

}  // namespace
}  // namespace baton
