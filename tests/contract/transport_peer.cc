// The other process of the transport contract tests: it is killed, stopped and continued while it plays one role.
//   transport_peer control-writer PORT HOST_ID   connects to a control server, prints "connected", waits
//   transport_peer control-target                serves control, prints its port, waits

#include <cstdio>
#include <iostream>
#include <string>

#include "tests/contract/control_recorder.h"

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

int Main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "control-writer" && argc == 4) return ControlWriter(static_cast<uint16_t>(std::stoi(argv[2])), argv[3]);
  if (role == "control-target" && argc == 2) return ControlTarget();
  std::fprintf(stderr, "unknown role\n");
  return 2;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
