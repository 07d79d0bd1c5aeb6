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

namespace baton {

struct TlsOptions {
  std::string certificate;  // PEM file; empty: plain text
  std::string key;          // PEM file
  std::string ca;           // PEM file; server: require clients' certificates signed by it; client: trust it
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  uint32_t max_message_mib = 64;
  TlsOptions tls;
};
void AddServerFlags(Flags& flags, ServerOptions& options);
void AddTlsFlags(Flags& flags, const std::string& prefix, TlsOptions& options);

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

// The whole file. NOT_FOUND naming it.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace baton
