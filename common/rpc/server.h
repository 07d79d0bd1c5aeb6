#pragma once

// A gRPC server as every Baton program starts it: health, reflection, limits, keepalive, TLS.

#include <grpcpp/server.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/config/flags.h"
#include "common/rpc/tls.h"

namespace baton {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  uint32_t max_message_mib = 64;
  TlsOptions tls;
};
void AddServerFlags(Flags& flags, ServerOptions& options);

class RpcServer {
 public:
  // Services outlive the server. Health answers SERVING for "" (liveness) and NOT_SERVING for `readiness` names until
  // SetReady. UNAVAILABLE when the address is taken.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const ServerOptions& options,
                                                          const std::vector<grpc::Service*>& services,
                                                          std::vector<std::string> readiness);
  ~RpcServer();

  uint16_t port() const { return port_; }
  void SetReady(bool ready);
  void SetLive(bool live);
  // No new calls; running ones may go on until `grace` has passed, then they are cancelled. Returns when all ended.
  void Shutdown(Duration grace);

 private:
  RpcServer() = default;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> readiness_;
  uint16_t port_ = 0;
};

}  // namespace baton
