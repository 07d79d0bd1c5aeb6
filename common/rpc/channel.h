#pragma once

// Client channels to workers and routers: keepalive that notices a dead peer in seconds, TLS, message limits.

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/tls.h"

namespace baton {

struct ChannelOptions {
  TlsOptions tls;        // `ca` set: TLS, with a client certificate if given
  std::string tls_name;  // what the server's certificate must be for; empty: the address's host
  uint32_t max_message_mib = 64;
};

// A client's for TLS, from the files of `tls`; without `ca` it trusts the system's authorities.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeTlsCredentials(const TlsOptions& tls);

// INVALID_ARGUMENT for files of TLS that say too little (tls.h).
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address, const ChannelOptions& options);

}  // namespace baton
