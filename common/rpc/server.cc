#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "common/base/status.h"

namespace baton {
namespace {

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(const TlsOptions& tls) {
  BATON_ASSIGN_OR_RETURN(const TlsFiles files, ReadTlsFiles(tls));
  BATON_RETURN_IF_ERROR(CheckServerTls(tls));
  if (files.certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(files.ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = files.ca;
  options.pem_key_cert_pairs.push_back({files.key, files.certificate});
  return grpc::SslServerCredentials(options);
}

}  // namespace

void AddServerFlags(Flags& flags, ServerOptions& options) {
  flags.Add("host", &options.host, "Address to listen on for gRPC.");
  flags.Add("port", &options.port, "Port to listen on for gRPC; 0 takes a free one.");
  flags.Add("max_message_mib", &options.max_message_mib, "Largest gRPC message, MiB.", 1, 1024);
  flags.Add("tls_cert", &options.tls.certificate, "PEM certificate; empty means plain text.");
  flags.Add("tls_key", &options.tls.key, "PEM private key of the certificate.");
  flags.Add("tls_ca", &options.tls.ca, "PEM certificates that a client's must be signed by; empty: clients need none.");
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const ServerOptions& options,
                                                            const std::vector<grpc::Service*>& services,
                                                            std::vector<std::string> readiness) {
  BATON_ASSIGN_OR_RETURN(auto credentials, Credentials(options.tls));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.host + ":" + std::to_string(options.port), credentials, &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_mib) << 20);
  builder.SetMaxSendMessageSize(static_cast<int>(options.max_message_mib) << 20);
  // A second server on the same port must fail, not share it silently.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Dead clients are noticed within half a minute; clients may ping as often as ours do.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // More often is a flood; one too many of those ends the connection.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  for (grpc::Service* service : services) builder.RegisterService(service);

  auto server = std::unique_ptr<RpcServer>(new RpcServer());
  server->server_ = builder.BuildAndStart();
  if (!server->server_ || port == 0) {
    return Unavailable("cannot listen on %s:%d", options.host, options.port);
  }
  server->port_ = static_cast<uint16_t>(port);
  server->readiness_ = std::move(readiness);
  server->SetReady(false);
  return server;
}

RpcServer::~RpcServer() {
  if (server_) Shutdown(Duration::zero());
}

void RpcServer::SetReady(bool ready) {
  for (const std::string& name : readiness_) server_->GetHealthCheckService()->SetServingStatus(name, ready);
}

void RpcServer::SetLive(bool live) { server_->GetHealthCheckService()->SetServingStatus("", live); }

void RpcServer::Shutdown(Duration grace) {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::microseconds>(grace));
  server_->Wait();
  server_.reset();
}

}  // namespace baton
