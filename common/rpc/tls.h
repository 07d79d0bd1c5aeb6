#pragma once

// TLS of servers, channels and the span exporter: the files that flags name, read and checked at start.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

struct TlsOptions {
  std::string certificate;  // PEM file; server: empty means plain text
  std::string key;          // PEM file
  // PEM file; server: require clients' certificates signed by it; client: trust it, empty means plain text
  std::string ca;
  std::string flags = "tls";  // what the names of the flags begin with, for errors
};

// INVALID_ARGUMENT, naming the flags, where what is set asks for TLS and would be plain text. A server that clients
// must show certificates needs one of its own;
absl::Status CheckServerTls(const TlsOptions& options);
// a channel speaks TLS where it has authorities to trust.
absl::Status CheckChannelTls(const TlsOptions& options);

// What the files hold; empty where none is named.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string ca;
};

// INVALID_ARGUMENT for a certificate without a key or the other way round, and for a file without a PEM block of its
// kind; NOT_FOUND for one that cannot be read. Both name flag and file. What is in the blocks is not looked at.
absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsOptions& options);

}  // namespace baton
