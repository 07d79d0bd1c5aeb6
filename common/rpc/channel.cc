#include "common/rpc/channel.h"

#include <grpcpp/grpcpp.h>

#include "common/base/status.h"

namespace baton {

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeTlsCredentials(const TlsOptions& tls) {
  BATON_ASSIGN_OR_RETURN(const TlsFiles files, ReadTlsFiles(tls));
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = files.ca;
  ssl.pem_cert_chain = files.certificate;
  ssl.pem_private_key = files.key;
  return grpc::SslCredentials(ssl);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address, const ChannelOptions& options) {
  BATON_RETURN_IF_ERROR(CheckChannelTls(options.tls));
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options.tls.ca.empty()) {
    BATON_ASSIGN_OR_RETURN(credentials, MakeTlsCredentials(options.tls));
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_mib) << 20);
  arguments.SetMaxSendMessageSize(static_cast<int>(options.max_message_mib) << 20);
  if (!options.tls.ca.empty() && !options.tls_name.empty()) arguments.SetSslTargetNameOverride(options.tls_name);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 2'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // One connection an address: a channel pool of its own for each MakeChannel.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace baton
