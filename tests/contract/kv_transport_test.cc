// What kv_transport.h promises, one body over every transport and mode, both ends in this process.

#include "common/transport/kv_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "common/base/status.h"
#include "tests/contract/contract_pool.h"
#include "tests/contract/control_recorder.h"
#include "tests/contract/failing_pool.h"
#include "tests/contract/test_gate.h"
#include "tests/contract/transport_modes.h"

namespace baton {
namespace {

constexpr uint64_t kPoolBytes = 8 << 20;
constexpr uint64_t kBlock = 12'288;
constexpr WriteStamp kStamp{LeaseId{1}, 1};

class KvTransportContract : public ::testing::TestWithParam<TransportMode> {
 protected:
  struct End {
    ContractPool pool;  // outlives the transport
    std::unique_ptr<KvTransport> transport;
    std::string descriptor;
  };

  KvTransportContract() {
    gate_.Open(kStamp.lease);
    target_ = MakeEnd(&gate_);
    writer_ = MakeEnd(nullptr);
    std::mt19937_64 random(7);
    for (uint64_t i = 0; i < kPoolBytes; i += 8) {
      const uint64_t value = random() | 1;
      std::memcpy(sources_.data() + i, &value, 8);
    }
    writer_.pool.Write(0, sources_);
  }

  End MakeEnd(WriteGate* gate) {
    End end;
    auto transport = MakeTransport(GetParam().Options(network_));
    EXPECT_TRUE(transport.ok()) << transport.status();
    end.transport = *std::move(transport);
    if (gate != nullptr) end.transport->SetWriteGate(gate);
    auto pool = ContractPool::Make(GetParam(), *end.transport, kPoolBytes);
    EXPECT_TRUE(pool.ok()) << pool.status();
    end.pool = *std::move(pool);
    end.descriptor = *end.transport->Describe();
    return end;
  }
  absl::StatusOr<std::unique_ptr<KvSession>> ConnectTo(const End& target) {
    return writer_.transport->Connect(target.descriptor, writer_.pool.source());
  }
  std::unique_ptr<KvSession> Connect() {
    auto session = ConnectTo(target_);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  static absl::Status Flush(KvSession& session) {
    Recorder<absl::Status> done;
    session.Flush([&](const absl::Status& status) { done.Add(status); });
    if (!done.WaitForCount(1)) {
      ADD_FAILURE() << "the flush was never reported";
      std::abort();  // it would write to what goes out of scope here
    }
    return done.values()[0];
  }
  PutRun Run(uint64_t source_offset, uint64_t target_offset, uint64_t bytes) const {
    return writer_.pool.Run(source_offset, target_offset, bytes);
  }
  // What the writer's pool holds for the run.
  std::span<const std::byte> Source(const PutRun& run) const {
    const uint64_t offset = run.source == nullptr ? run.source_offset : run.source - writer_.pool.host().data();
    return std::span(sources_).subspan(offset, run.bytes);
  }
  void ChangeSource(const PutRun& run, int value) {
    const std::span<const std::byte> source = Source(run);
    std::memset(const_cast<std::byte*>(source.data()), value, source.size());
    writer_.pool.Write(source.data() - sources_.data(), source);
  }
  // Messages through shared memory order what is read here between the target's writes. ThreadSanitizer cannot see
  // that; it does see the gate's lock.
  std::vector<std::byte> ReadTarget(uint64_t offset, uint64_t bytes) const {
    gate_.in_progress();
    std::vector<std::byte> read = target_.pool.Read(offset, bytes);
    gate_.in_progress();
    return read;
  }
  bool Arrived(const PutRun& run) const {
    return std::ranges::equal(ReadTarget(run.target_offset, run.bytes), Source(run));
  }
  // True when nothing but `runs` was written into the (zero) target.
  bool NothingElseWritten(const std::vector<PutRun>& runs) const {
    std::vector<bool> covered(kPoolBytes);
    for (const PutRun& run : runs)
      std::fill_n(covered.begin() + static_cast<ptrdiff_t>(run.target_offset), run.bytes, true);
    const std::vector<std::byte> pool = ReadTarget(0, kPoolBytes);
    for (uint64_t i = 0; i < kPoolBytes; ++i) {
      if (!covered[i] && pool[i] != std::byte{0}) return false;
    }
    return true;
  }

  const std::shared_ptr<LocalNetwork> network_ = std::make_shared<LocalNetwork>();
  mutable TestGate gate_;
  std::vector<std::byte> sources_ = std::vector<std::byte>(kPoolBytes);
  End target_, writer_;
};

TEST_P(KvTransportContract, PoolIsZeroedAlignedAndAllocatedOnce) {
  EXPECT_TRUE(NothingElseWritten({}));
  EXPECT_EQ(target_.transport->AllocatePool(kPoolBytes).status().code(), absl::StatusCode::kFailedPrecondition);
  if (GetParam().devices > 0) {
    EXPECT_EQ(target_.transport->UsePool(target_.pool.device()).code(), absl::StatusCode::kFailedPrecondition);
  } else {
    EXPECT_EQ(target_.pool.host().size(), kPoolBytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(target_.pool.host().data()) % 4096, 0u);
  }
  EXPECT_EQ(target_.transport->capabilities().one_sided, !GetParam().refusable);
  EXPECT_EQ(target_.transport->name(), GetParam().transport);
}

TEST_P(KvTransportContract, DescribeNeedsAPool) {
  const auto transport = MakeTransport(GetParam().Options(network_));
  EXPECT_EQ((*transport)->Describe().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(KvTransportContract, SessionNamesItsLane) { EXPECT_EQ(Connect()->lane(), GetParam().lane); }

TEST_P(KvTransportContract, AdjacentRunsArriveAndNothingElse) {
  auto session = Connect();
  std::vector<PutRun> runs;
  for (uint64_t i = 0; i < 100; ++i) runs.push_back(Run(i * kBlock, (i + 7) * kBlock, kBlock));
  ASSERT_TRUE(session->Put(kStamp, runs).ok());
  ASSERT_TRUE(Flush(*session).ok());
  for (const PutRun& run : runs) EXPECT_TRUE(Arrived(run));
  EXPECT_TRUE(NothingElseWritten(runs));
}

TEST_P(KvTransportContract, ScatteredRunsOfRandomSizeArriveAndNothingElse) {
  auto session = Connect();
  std::mt19937_64 random(3);
  std::vector<PutRun> runs;
  for (uint64_t at = 0; at + 70'000 < kPoolBytes; at += 70'000) {
    const uint64_t bytes = random() % 60'000;
    runs.push_back(Run(random() % (kPoolBytes - bytes), at + random() % 10'000, bytes));
  }
  std::ranges::shuffle(runs, random);
  for (size_t i = 0; i < runs.size(); i += 10) {
    ASSERT_TRUE(session->Put(kStamp, std::span(runs).subspan(i, std::min<size_t>(10, runs.size() - i))).ok());
  }
  ASSERT_TRUE(Flush(*session).ok());
  for (const PutRun& run : runs) EXPECT_TRUE(Arrived(run)) << run.target_offset << " + " << run.bytes;
  EXPECT_TRUE(NothingElseWritten(runs));
}

TEST_P(KvTransportContract, WholePoolInOneRunArrives) {
  auto session = Connect();
  const PutRun run = Run(0, 0, kPoolBytes);
  ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
  ASSERT_TRUE(Flush(*session).ok());
  EXPECT_TRUE(Arrived(run));
}

TEST_P(KvTransportContract, EmptyPutsAreFine) {
  auto session = Connect();
  EXPECT_TRUE(session->Put(kStamp, {}).ok());
  const std::vector<PutRun> empty = {Run(0, 0, 0), {nullptr, kPoolBytes, 0}};
  EXPECT_TRUE(session->Put(kStamp, empty).ok());
  EXPECT_TRUE(Flush(*session).ok());
  EXPECT_TRUE(NothingElseWritten({}));
}

TEST_P(KvTransportContract, RunOutsideThePoolIsRefusedWithNothingWritten) {
  auto session = Connect();
  for (const PutRun& bad : {Run(0, kPoolBytes - 10, 11), Run(0, kPoolBytes + 1, 0), Run(0, ~uint64_t{0} - 5, 100)}) {
    const std::vector<PutRun> runs = {Run(0, 0, kBlock), bad};
    EXPECT_EQ(session->Put(kStamp, runs).code(), absl::StatusCode::kOutOfRange);
  }
  if (GetParam().devices > 0) {
    const PutRun beyond{nullptr, 0, 11, kPoolBytes - 10};
    EXPECT_EQ(session->Put(kStamp, {&beyond, 1}).code(), absl::StatusCode::kOutOfRange);
  }
  EXPECT_TRUE(Flush(*session).ok()) << "a refused call does not end the session";
  EXPECT_TRUE(NothingElseWritten({}));
}

TEST_P(KvTransportContract, SourceMayChangeAfterTheFlush) {
  auto session = Connect();
  const PutRun run = Run(0, 0, 1 << 20);
  for (int round = 1; round <= 5; ++round) {
    ChangeSource(run, round);
    ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
    ASSERT_TRUE(Flush(*session).ok());
    ASSERT_TRUE(Arrived(run));
  }
}

TEST_P(KvTransportContract, EveryFlushReportsOnceAndCoversThePutsBeforeIt) {
  auto first = Connect(), second = Connect();
  Recorder<int> order;
  std::atomic<int> missing{0};
  std::vector<PutRun> runs;
  for (uint64_t i = 0; i < 40; ++i) runs.push_back(Run(i * 100'000, i * 100'000, 100'000));
  for (int i = 0; i < 40; ++i) {
    KvSession& session = i % 2 == 0 ? *first : *second;
    ASSERT_TRUE(session.Put(kStamp, {&runs[static_cast<size_t>(i)], 1}).ok());
    session.Flush([&, i](const absl::Status& status) {
      if (!status.ok() || !Arrived(runs[static_cast<size_t>(i)])) ++missing;
      order.Add(i);
    });
  }
  ASSERT_TRUE(order.WaitForCount(40));
  EXPECT_EQ(missing, 0);
  auto reported = order.values();
  std::ranges::sort(reported);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(reported[static_cast<size_t>(i)], i);
}

TEST_P(KvTransportContract, ManySessionsFromManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      auto session = ConnectTo(target_);
      if (!session.ok()) {
        ++failures;
        return;
      }
      for (uint64_t i = 0; i < 16; ++i) {
        const PutRun run = Run((t * 16 + i) * 50'000, (t * 16 + i) * 50'000, 50'000);
        if (!(*session)->Put(kStamp, {&run, 1}).ok() || !Flush(**session).ok() || !Arrived(run)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST_P(KvTransportContract, ClosingMidTransferReportsOpenFlushesAndLeavesTheRestIntact) {
  std::vector<PutRun> runs = {Run(0, 0, kPoolBytes / 2)};
  Recorder<absl::Status> flushes;
  {
    auto session = Connect();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(session->Put(kStamp, runs).ok());
    session->Flush([&](const absl::Status& status) { flushes.Add(status); });
  }
  ASSERT_EQ(flushes.values().size(), 1u) << "reported before the destructor returned";
  EXPECT_TRUE(flushes.values()[0].ok() || flushes.values()[0].code() == absl::StatusCode::kCancelled);
  EXPECT_TRUE(NothingElseWritten(runs));
  // The pair still works.
  auto session = Connect();
  const PutRun after = Run(0, kPoolBytes / 2, kBlock);
  ASSERT_TRUE(session->Put(kStamp, {&after, 1}).ok());
  ASSERT_TRUE(Flush(*session).ok());
  EXPECT_TRUE(Arrived(after));
}

TEST_P(KvTransportContract, TargetsDestructionEndsItsSessions) {
  auto session = Connect();
  target_.transport.reset();
  const PutRun run = Run(0, 0, kBlock);
  // The news takes a moment; then both calls say so, for good.
  const TimePoint deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  absl::Status status;
  while (std::chrono::steady_clock::now() < deadline) {
    status = session->Put(kStamp, {&run, 1});
    if (!status.ok()) break;
    std::this_thread::yield();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(Flush(*session).code(), absl::StatusCode::kUnavailable);
  session.reset();
  EXPECT_EQ(ConnectTo(target_).status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(KvTransportContract, ForeignOrDamagedDescriptorsAreInvalid) {
  std::string damaged = target_.descriptor;
  damaged[damaged.size() / 2] ^= 1;
  for (const std::string& descriptor : {std::string(), std::string("x"), std::string(1000, '\0'),
                                        target_.descriptor.substr(0, target_.descriptor.size() / 2), damaged}) {
    const absl::StatusCode code = writer_.transport->Connect(descriptor).status().code();
    // A damaged name in the local registry is a well-formed name of nobody.
    EXPECT_TRUE(code == absl::StatusCode::kInvalidArgument ||
                (GetParam().transport == "local" && code == absl::StatusCode::kUnavailable))
        << static_cast<int>(code);
  }
}

TEST_P(KvTransportContract, GateRefusesWritesOfALeaseThatIsOver) {
  if (!GetParam().refusable) GTEST_SKIP() << "one-sided puts cannot be refused";
  auto session = Connect();
  const WriteStamp other{LeaseId{2}, 1};
  gate_.Open(other.lease);
  gate_.Close(kStamp.lease);
  const PutRun late = Run(0, 0, 3 * kBlock), good = Run(0, 4 * kBlock, 3 * kBlock);
  ASSERT_TRUE(session->Put(kStamp, {&late, 1}).ok());
  ASSERT_TRUE(session->Put(other, {&good, 1}).ok());
  ASSERT_TRUE(Flush(*session).ok()) << "one lease's end is not the session's";
  EXPECT_TRUE(Arrived(good));
  EXPECT_TRUE(NothingElseWritten({good}));
  EXPECT_EQ(gate_.refused_bytes(), late.bytes);
  EXPECT_EQ(gate_.written_bytes(other.lease), good.bytes);
  EXPECT_EQ(gate_.in_progress(), 0);
}

TEST_P(KvTransportContract, WithoutAGateNothingRefusableIsAdmitted) {
  if (!GetParam().refusable) GTEST_SKIP() << "one-sided puts cannot be refused";
  const End gateless = MakeEnd(nullptr);
  auto session = *ConnectTo(gateless);
  const PutRun run = Run(0, 0, kBlock);
  ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
  ASSERT_TRUE(Flush(*session).ok());
  EXPECT_TRUE(std::ranges::all_of(gateless.pool.Read(), [](std::byte byte) { return byte == std::byte{0}; }));
}

// Holds every write until it is released.
class SlowGate final : public WriteGate {
 public:
  bool Admit(const WriteStamp&, uint64_t, uint64_t) override {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&released_));
    return true;
  }
  void Written(const WriteStamp&, uint64_t, uint64_t) override { absl::MutexLock lock(&mutex_); }
  void Release() {
    absl::MutexLock lock(&mutex_);
    released_ = true;
  }

 private:
  absl::Mutex mutex_;
  bool released_ = false;
};

TEST_P(KvTransportContract, SlowTargetHoldsUpFlushesButNoCaller) {
  if (!GetParam().refusable) GTEST_SKIP() << "one-sided puts do not need the target";
  SlowGate slow;
  const End target = MakeEnd(&slow);
  auto session = *ConnectTo(target);
  const PutRun run = Run(0, 0, kPoolBytes);
  Recorder<absl::Status> done;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
  session->Flush([&](const absl::Status& status) { done.Add(status); });
  EXPECT_TRUE(done.values().empty()) << "nothing can have been applied yet";
  slow.Release();
  ASSERT_TRUE(done.WaitForCount(1));
  EXPECT_TRUE(done.values()[0].ok());
  slow.Release();  // its lock orders what follows after the writes
  EXPECT_TRUE(std::ranges::equal(target.pool.Read(), Source(run)));
}

TEST_P(KvTransportContract, AWriteThatCannotBeAppliedEndsTheSessionAndNoFlushSaysItWas) {
  if (GetParam().devices == 0) GTEST_SKIP() << "memory of the host does not fail";
  for (const auto failure : {FailingPool::Failure::kStart, FailingPool::Failure::kEnd}) {
    TestGate gate;
    gate.Open(kStamp.lease);
    FailingPool pool(MakeDevicePool(kPoolBytes, GetParam().devices));
    const auto transport = *MakeTransport(GetParam().Options(network_));
    transport->SetWriteGate(&gate);
    ASSERT_TRUE(transport->UsePool(&pool).ok());
    auto session = *writer_.transport->Connect(*transport->Describe(), writer_.pool.source());
    const PutRun run = Run(0, 0, kBlock);
    ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
    ASSERT_TRUE(Flush(*session).ok());

    pool.FailNextWrite(failure);
    Recorder<absl::Status> flushes;
    ASSERT_TRUE(session->Put(kStamp, {&run, 1}).ok());
    session->Flush([&](const absl::Status& status) { flushes.Add(status); });
    // Good ones behind it do not count for it.
    for (int i = 0; i < 3; ++i) (void)session->Put(kStamp, {&run, 1});
    session->Flush([&](const absl::Status& status) { flushes.Add(status); });
    ASSERT_TRUE(flushes.WaitForCount(2));
    for (const absl::Status& status : flushes.values()) EXPECT_FALSE(status.ok());
    EXPECT_FALSE(session->Put(kStamp, {&run, 1}).ok());
    session.reset();
    gate.Close(kStamp.lease);  // returns: every write that was admitted ends, also those that come late

    // Others are not concerned.
    gate.Open(kStamp.lease);
    auto next = *writer_.transport->Connect(*transport->Describe(), writer_.pool.source());
    ASSERT_TRUE(next->Put(kStamp, {&run, 1}).ok());
    EXPECT_TRUE(Flush(*next).ok());
  }
}

TEST_P(KvTransportContract, BandwidthProbeLeavesThePoolZero) {
  const auto bandwidth = ProbeBandwidth(*target_.transport, kPoolBytes);
  ASSERT_TRUE(bandwidth.ok()) << bandwidth.status();
  EXPECT_GT(*bandwidth, 0);
  EXPECT_TRUE(NothingElseWritten({}));
}

TEST(TransportCatalogue, MessagesDoNotPassThroughSharedMemory) {
  for (const std::string lanes : {"posix,tcp,self", "tcp,sm", "all", "^tcp"}) {
    TransportOptions options{.ucx_tls = lanes, .message_puts = true};
    EXPECT_EQ(MakeTransport(options).status().code(), absl::StatusCode::kInvalidArgument) << lanes;
    options.message_puts = false;
    options.device_pool = true;
    EXPECT_EQ(MakeTransport(options).status().code(), absl::StatusCode::kInvalidArgument) << lanes;
  }
  EXPECT_TRUE(MakeTransport({.ucx_tls = "tcp,self", .message_puts = true}).ok());
  EXPECT_TRUE(MakeTransport({.ucx_tls = "posix,tcp,self"}).ok());
}

TEST(TransportCatalogue, UnknownNameIsRefusedWithTheKnownOnes) {
  TransportOptions options;
  options.name = "carrier-pigeon";
  const absl::Status status = MakeTransport(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& name : TransportNames()) EXPECT_NE(StatusMessage(status).find(name), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Modes, KvTransportContract, ::testing::ValuesIn(AllTransportModes()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace baton
