#pragma once

// TLS of servers, channels and the span exporter: the files that flags name, read and checked at start.

#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"

namespace baton {

struct TlsOptions {
  std::string certificate;    // PEM file; empty: plain text
  std::string key;            // PEM file
  std::string ca;             // PEM file; server: require clients' certificates signed by it; client: trust it
  std::string flags = "tls";  // what the names of the flags begin with, for errors
};
// --PREFIX_cert, --PREFIX_key, --PREFIX_ca.
void AddTlsFlags(Flags& flags, const std::string& prefix, TlsOptions& options);

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
