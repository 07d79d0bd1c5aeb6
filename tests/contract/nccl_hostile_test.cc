// Whatever bytes arrive on the port beside NCCL: the connection that brought them closes, and nothing reaches the pool.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/base/wire.h"
#include "common/transport/catalogue.h"
#include "common/transport/control_codec.h"
#include "common/transport/nccl/nccl_wire.h"
#include "tests/contract/contract_pool.h"
#include "tests/contract/control_recorder.h"
#include "tests/contract/raw_socket.h"
#include "tests/contract/test_gate.h"
#include "tests/fakes/no_threads.h"

namespace baton {
namespace {

constexpr uint64_t kPoolBytes = 1 << 20;
const TransportMode kMode{"Nccl", "nccl", "", false, "nccl", true, 1};

class NcclHostile : public ::testing::Test {
 protected:
  NcclHostile() {
    gate_.Open(LeaseId{1});
    target_ = Make();
    target_->SetWriteGate(&gate_);
    pool_ = *ContractPool::Make(kMode, *target_, kPoolBytes);
    address_ = *DecodeNcclDescriptor(*target_->Describe());
  }
  static std::unique_ptr<KvTransport> Make() {
    TransportOptions options;
    options.name = "nccl";
    return *MakeTransport(options);
  }
  UniqueFd Connect() const {
    return *ConnectTo(address_.host, address_.port, std::chrono::steady_clock::now() + std::chrono::seconds(30));
  }
  std::string GoodHello() const {
    return EncodeFrame(FrameType::kHello, EncodeNcclHello({address_.instance, address_.secret}));
  }
  void ExpectClosed(const std::string& bytes) {
    const UniqueFd fd = Connect();
    SendRaw(fd, bytes);
    EXPECT_TRUE(ClosedByPeer(fd));
  }
  void ExpectUntouchedAndServing() {
    EXPECT_TRUE(std::ranges::all_of(pool_.Read(), [](std::byte byte) { return byte == std::byte{0}; }));
    ContractPool pool;
    const auto writer = Make();
    pool = *ContractPool::Make(kMode, *writer, 32 << 10);
    const std::vector<std::byte> sevens(pool.bytes(), std::byte{7});
    pool.Write(0, sevens);
    auto session = writer->Connect(*target_->Describe(), pool.source());
    ASSERT_TRUE(session.ok()) << session.status();
    const PutRun run = pool.Run(0, 0, pool.bytes());
    ASSERT_TRUE((*session)->Put({LeaseId{1}, 1}, {&run, 1}).ok());
    Recorder<absl::Status> done;
    (*session)->Flush([&](const absl::Status& status) { done.Add(status); });
    ASSERT_TRUE(done.WaitForCount(1));
    EXPECT_TRUE(done.values()[0].ok()) << done.values()[0];
    EXPECT_EQ(pool_.Read(0, pool.bytes()), sevens);
  }

  TestGate gate_;
  ContractPool pool_;  // outlives the transport
  std::unique_ptr<KvTransport> target_;
  NcclDescriptor address_;
};

TEST_F(NcclHostile, WrongHelloIsTurnedAway) {
  ExpectClosed(EncodeFrame(FrameType::kHello, EncodeNcclHello({address_.instance, address_.secret + 1})));
  ExpectClosed(EncodeFrame(FrameType::kHello, EncodeNcclHello({address_.instance + 1, address_.secret})));
  ExpectClosed(EncodeFrame(FrameType::kHello, "short"));
  ExpectClosed(EncodeFrame(FrameType::kAnnounce, EncodeNcclPiece({{LeaseId{1}, 1}, {{nullptr, 0, 16}}})));
  ExpectClosed(std::string("GET / HTTP/1.1\r\n\r\n"));
  ExpectUntouchedAndServing();
}

TEST_F(NcclHostile, PiecesThatCannotBeEndTheSession) {
  for (const NcclPiece& piece :
       {NcclPiece{{LeaseId{1}, 1}, {}}, NcclPiece{{LeaseId{1}, 1}, {{nullptr, kPoolBytes - 8, 16}}},
        NcclPiece{{LeaseId{1}, 1}, {{nullptr, ~uint64_t{0}, 16}}}, NcclPiece{{LeaseId{1}, 1}, {{nullptr, 0, 0}}},
        NcclPiece{{LeaseId{1}, 1}, {{nullptr, 0, kNcclPieceBytes + 1}}}}) {
    EXPECT_FALSE(DecodeNcclPiece(EncodeNcclPiece(piece), kPoolBytes).ok());
    // No NCCL behind it: the target waits for the other rank, and looks at frames meanwhile or after.
    ExpectClosed(GoodHello() + EncodeFrame(FrameType::kAnnounce, EncodeNcclPiece(piece)));
  }
  ExpectUntouchedAndServing();
}

TEST_F(NcclHostile, RandomBytesEndTheSession) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    std::string bytes = round % 2 == 0 ? GoodHello() : std::string();
    for (uint64_t i = random() % 300; i > 0; --i) bytes.push_back(static_cast<char>(random()));
    const UniqueFd fd = Connect();
    SendRaw(fd, bytes);
  }
  ExpectUntouchedAndServing();
}

TEST_F(NcclHostile, WithoutAThreadForItAWriterIsTurnedAway) {
  const auto writer = Make();
  {
    const NoThreads none;
    FramedSocket socket(Connect());
    std::vector<Frame> frames;
    for (SocketState state = SocketState::kOpen; frames.empty() && state == SocketState::kOpen;) {
      pollfd entry{socket.fd(), POLLIN, 0};
      ASSERT_EQ(poll(&entry, 1, 60'000), 1);
      state = socket.Read(&frames);
    }
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].type, FrameType::kRefusal);
    EXPECT_EQ(frames[0].body, "a thread cannot be started: Resource temporarily unavailable");
    EXPECT_TRUE(absl::IsResourceExhausted(writer->Connect(*target_->Describe()).status()));
  }
  ExpectUntouchedAndServing();
}

TEST(NcclWire, EveryCutOfAPieceIsRefused) {
  const std::string whole = EncodeNcclPiece({{LeaseId{3}, 9}, {{nullptr, 64, 32}, {nullptr, 4096, 8}}});
  const auto piece = DecodeNcclPiece(whole, kPoolBytes);
  ASSERT_TRUE(piece.ok());
  EXPECT_EQ(piece->bytes(), 40u);
  EXPECT_EQ(piece->stamp, (WriteStamp{LeaseId{3}, 9}));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(DecodeNcclPiece(whole.substr(0, length), kPoolBytes).ok()) << length;
  }
}

}  // namespace
}  // namespace baton
