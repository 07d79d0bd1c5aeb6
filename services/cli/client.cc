#include "services/cli/client.h"

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <future>
#include <mutex>

#include "baton/v1/admin.grpc.pb.h"
#include "baton/v1/inference.grpc.pb.h"
#include "common/base/status.h"
#include "common/config/host_port.h"
#include "common/config/number_check.h"
#include "common/rpc/channel.h"
#include "services/cli/utf8_check.h"

namespace baton::cli {
namespace {

constexpr char kConnectionGroup[] = "Connection";
constexpr int kServing = 1;  // grpc.health.v1.HealthCheckResponse.ServingStatus

CallStatus FromGrpcStatus(const grpc::Status& status) {
  return {static_cast<int>(status.error_code()), status.error_message(), status.error_details()};
}

}  // namespace

void ConnectionOptions::AddTo(CLI::App& command) {
  command.add_option("--router", router, "Address of the router, host:port")
      ->envname("BATON_ROUTER")
      ->capture_default_str()
      ->group(kConnectionGroup);
  AddTlsAndTimeoutTo(command);
}

void ConnectionOptions::AddTlsAndTimeoutTo(CLI::App& command) {
  const std::string group = kConnectionGroup;
  command.add_option("--tls_ca", tls_ca, "PEM file with the authority to trust; turns TLS on")
      ->envname("BATON_TLS_CA")
      ->group(group);
  command.add_option("--tls_cert", tls_cert, "PEM file with this client's certificate")
      ->envname("BATON_TLS_CERT")
      ->group(group);
  command.add_option("--tls_key", tls_key, "PEM file with its key")->envname("BATON_TLS_KEY")->group(group);
  command
      .add_option("--tls_name", tls_name, "Name that the server's certificate must be for; default: the address's host")
      ->envname("BATON_TLS_NAME")
      ->group(group);
  command.add_option("--timeout", timeout_seconds, "Seconds until a call is given up; 0 waits for ever")
      ->check(RealNumberCheck(0, 1e6))
      ->capture_default_str()
      ->group(group);
}

struct Client::Impl {
  // Runs `call`, which sends `request`, with a context that CancelCall can reach.
  template <typename Call>
  CallStatus Run(const google::protobuf::Message& request, const Call& call) {
    if (const absl::Status text = CheckUtf8(request); !text.ok()) {
      return {static_cast<int>(text.code()), StatusMessage(text), ""};
    }
    grpc::ClientContext context;
    if (timeout_seconds > 0) {
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::microseconds(static_cast<int64_t>(timeout_seconds * 1e6)));
    }
    {
      const std::lock_guard lock(mutex);
      running = &context;
    }
    const grpc::Status status = call(&context);
    const std::lock_guard lock(mutex);
    running = nullptr;
    return FromGrpcStatus(status);
  }

  double timeout_seconds = 0;
  std::unique_ptr<v1::InferenceService::Stub> inference;
  std::unique_ptr<v1::AdminService::Stub> admin;
  // Debian 13 ships no health.proto; on the wire its two messages are these well-known ones.
  std::unique_ptr<grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::Int32Value>> health;
  std::mutex mutex;
  grpc::ClientContext* running = nullptr;  // guarded by mutex
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ConnectionOptions& options) {
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return InvalidArgument("--tls_cert and --tls_key need each other");
  }
  if (options.tls_ca.empty() && !(options.tls_cert.empty() && options.tls_name.empty())) {
    return InvalidArgument("--tls_cert and --tls_name need --tls_ca, which turns TLS on");
  }
  // Other forms are gRPC's own, such as dns:///host:port. A port beyond 65535 would reach another one.
  if (options.router.find(":/") == std::string::npos) BATON_RETURN_IF_ERROR(ParseHostPort(options.router).status());
  ChannelOptions channel_options;
  channel_options.tls = {options.tls_cert, options.tls_key, options.tls_ca};
  channel_options.tls_name = options.tls_name;
  BATON_ASSIGN_OR_RETURN(const auto channel, MakeChannel(options.router, channel_options));
  auto impl = std::make_unique<Impl>();
  impl->timeout_seconds = options.timeout_seconds;
  impl->inference = v1::InferenceService::NewStub(channel);
  impl->admin = v1::AdminService::NewStub(channel);
  impl->health = std::make_unique<decltype(impl->health)::element_type>(channel);
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

CallStatus Client::StreamGenerate(const v1::StreamGenerateRequest& request,
                                  const std::function<void(const v1::StreamGenerateResponse&)>& on_message) {
  return impl_->Run(request.request(), [&](grpc::ClientContext* context) {
    const auto reader = impl_->inference->StreamGenerate(context, request);
    v1::StreamGenerateResponse message;
    while (reader->Read(&message)) on_message(message);
    return reader->Finish();
  });
}

CallStatus Client::Generate(const v1::GenerateRequest& request, v1::GenerateResponse* response) {
  return impl_->Run(request, [&](auto* context) { return impl_->inference->Generate(context, request, response); });
}

CallStatus Client::Tokenize(const v1::TokenizeRequest& request, v1::TokenizeResponse* response) {
  return impl_->Run(request, [&](auto* context) { return impl_->inference->Tokenize(context, request, response); });
}

CallStatus Client::ListModels(v1::ListModelsResponse* response) {
  const v1::ListModelsRequest request;
  return impl_->Run(request, [&](auto* context) { return impl_->inference->ListModels(context, request, response); });
}

CallStatus Client::ListWorkers(v1::ListWorkersResponse* response) {
  const v1::ListWorkersRequest request;
  return impl_->Run(request, [&](auto* context) { return impl_->admin->ListWorkers(context, request, response); });
}

CallStatus Client::DrainWorker(const std::string& address) {
  v1::DrainWorkerRequest request;
  request.set_address(address);
  v1::DrainWorkerResponse response;
  return impl_->Run(request, [&](auto* context) { return impl_->admin->DrainWorker(context, request, &response); });
}

CallStatus Client::CheckHealth(const std::string& service, bool* serving) {
  google::protobuf::StringValue request;
  request.set_value(service);
  google::protobuf::Int32Value response;
  const CallStatus status = impl_->Run(request, [&](grpc::ClientContext* context) {
    std::promise<grpc::Status> ended;
    impl_->health->UnaryCall(context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                             [&](grpc::Status status) { ended.set_value(std::move(status)); });
    return ended.get_future().get();
  });
  *serving = status.ok() && response.value() == kServing;
  return status;
}

bool Client::CancelCall() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->running == nullptr) return false;
  impl_->running->TryCancel();
  return true;
}

}  // namespace baton::cli
