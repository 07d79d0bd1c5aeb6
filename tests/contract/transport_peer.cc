// The other process of the transport contract tests: it is killed, stopped and continued while it plays one role.
//   transport_peer control-writer PORT HOST_ID   connects to a control server, prints "connected", waits
//   transport_peer control-target                serves control, prints its port, waits
//   transport_peer target MODE POOL_BYTES        prints its descriptor in hex, admits lease 1; "checksum OFFSET BYTES"
//   is
//                                                answered with one of its pool
//   transport_peer writer MODE DESCRIPTOR        prints "writing" and puts ones over the first half of the pool, for
//   ever

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/synchronization/notification.h"
#include "common/base/hash.h"
#include "tests/contract/contract_pool.h"
#include "tests/contract/control_recorder.h"
#include "tests/contract/test_gate.h"
#include "tests/contract/transport_modes.h"

namespace baton {
namespace {

void Say(const std::string& line) { std::cout << line << std::endl; }

// Returns at the end of the input: when the test closes it or dies.
void WaitForEnd() {
  for (std::string line; std::getline(std::cin, line);) {
  }
}

int ControlWriter(uint16_t port, const std::string& host_id) {
  ControlHello self = TestHello(2, "writer");
  if (host_id != "same") self.host_id = host_id;
  auto client = ControlClient::Connect("127.0.0.1", port, self, Incarnation{1}, QuickOptions(), [](PeerEvent) {});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  Say("connected");
  WaitForEnd();
  return 0;
}

int ControlTarget() {
  RecordingHandler handler;
  auto server = ControlServer::Start("127.0.0.1", 0, TestHello(1, "target"), QuickOptions(), &handler);
  if (!server.ok()) return 1;
  Say(std::to_string((*server)->port()));
  WaitForEnd();
  return 0;
}

TransportMode ModeOf(const std::string& label) {
  for (const TransportMode& mode : ProcessTransportModes()) {
    if (mode.label == label) return mode;
  }
  std::exit(1);
}

std::unique_ptr<KvTransport> MakePeerTransport(const TransportMode& mode) {
  auto transport = MakeTransport(mode.Options());
  if (transport.ok()) return *std::move(transport);
  std::cerr << transport.status() << "\n";
  std::exit(1);
}

int Target(const TransportMode& mode, uint64_t pool_bytes) {
  TestGate gate;
  gate.Open(LeaseId{1});
  absl::StatusOr<ContractPool> pool = ContractPool();
  const auto transport = MakePeerTransport(mode);
  transport->SetWriteGate(&gate);
  pool = ContractPool::Make(mode, *transport, pool_bytes);
  if (!pool.ok()) return 1;
  Say(absl::BytesToHexString(*transport->Describe()));
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string word;
    size_t offset = 0, bytes = 0;
    words >> word >> offset >> bytes;
    gate.in_progress();  // the writes are over; the gate's lock lets ThreadSanitizer see it
    const uint64_t checksum = Checksum(pool->Read(offset, bytes));
    gate.in_progress();
    Say(std::to_string(checksum));
  }
  return 0;
}

int Writer(const TransportMode& mode, const std::string& descriptor) {
  absl::StatusOr<ContractPool> pool = ContractPool();
  const auto transport = MakePeerTransport(mode);
  pool = ContractPool::Make(mode, *transport, kWriterBytes);
  if (!pool.ok()) return 1;
  pool->Write(0, std::vector<std::byte>(kWriterBytes, std::byte{1}));
  auto session = transport->Connect(absl::HexStringToBytes(descriptor), pool->source());
  if (!session.ok()) return 1;
  const PutRun run = pool->Run(0, 0, kWriterBytes);
  for (bool first = true;; first = false) {
    absl::Notification flushed;
    if (!(*session)->Put({LeaseId{1}, 1}, {&run, 1}).ok()) return 1;
    (*session)->Flush([&](const absl::Status&) { flushed.Notify(); });
    flushed.WaitForNotification();
    if (first) Say("writing");
  }
}

int Main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "control-writer" && argc == 4) return ControlWriter(static_cast<uint16_t>(std::stoi(argv[2])), argv[3]);
  if (role == "control-target" && argc == 2) return ControlTarget();
  if (role == "target" && argc == 4) return Target(ModeOf(argv[2]), std::stoull(argv[3]));
  if (role == "writer" && argc == 4) return Writer(ModeOf(argv[2]), argv[3]);
  std::fprintf(stderr, "unknown role\n");
  return 2;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
