#pragma once

// Calls to a router, one at a time, each waiting for its end. The only part of this program that knows gRPC.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "baton/v1/admin.pb.h"
#include "baton/v1/inference.pb.h"
#include "services/cli/call_error.h"

namespace CLI {
class App;
}

namespace baton::cli {

struct ConnectionOptions {
  std::string router = "127.0.0.1:8100";
  std::string tls_ca, tls_cert, tls_key;  // PEM files; tls_ca set: TLS
  std::string tls_name;                   // that the server's certificate must be for; empty: the address's host
  double timeout_seconds = 0;             // of each call; 0: none

  // --router and what AddTlsAndTimeoutTo adds.
  void AddTo(CLI::App& command);
  // --tls_ca, --tls_cert, --tls_key, --tls_name, --timeout; `timeout_seconds` as it stands is the default.
  void AddTlsAndTimeoutTo(CLI::App& command);
};

class Client {
 public:
  // Reads TLS files; connects with the first call.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const ConnectionOptions& options);
  ~Client();

  CallStatus StreamGenerate(const v1::StreamGenerateRequest& request,
                            const std::function<void(const v1::StreamGenerateResponse&)>& on_message);
  CallStatus Generate(const v1::GenerateRequest& request, v1::GenerateResponse* response);
  CallStatus Tokenize(const v1::TokenizeRequest& request, v1::TokenizeResponse* response);
  CallStatus ListModels(v1::ListModelsResponse* response);
  CallStatus ListWorkers(v1::ListWorkersResponse* response);
  CallStatus DrainWorker(const std::string& address);
  // grpc.health.v1 of whatever program listens there: `serving` false when it answers anything but SERVING.
  CallStatus CheckHealth(const std::string& service, bool* serving);

  // From any thread: the running call, if there is one, ends CANCELLED. False when none runs.
  bool CancelCall();

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::cli
