#include "common/rpc/tls.h"

#include <fstream>
#include <sstream>

#include "common/base/status.h"

namespace baton {
namespace {

bool HoldsCertificate(const std::string& text) {
  return text.find("-----BEGIN CERTIFICATE-----") != std::string::npos ||
         text.find("-----BEGIN X509 CERTIFICATE-----") != std::string::npos ||
         text.find("-----BEGIN TRUSTED CERTIFICATE-----") != std::string::npos;
}

// PRIVATE KEY, RSA PRIVATE KEY, EC PRIVATE KEY.
bool HoldsPrivateKey(const std::string& text) {
  const size_t end = text.find("PRIVATE KEY-----");
  if (end == std::string::npos) return false;
  const size_t begin = text.rfind("-----BEGIN ", end);
  return begin != std::string::npos && text.find('\n', begin) > end;
}

absl::StatusOr<std::string> ReadPem(const std::string& flag, const std::string& path, bool (*holds)(const std::string&),
                                    const char* kind) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("--%s: cannot read %s", flag, path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!holds(text.str())) return InvalidArgument("--%s: %s holds no %s in PEM", flag, path, kind);
  return text.str();
}

}  // namespace

absl::Status CheckServerTls(const TlsOptions& options) {
  if (options.ca.empty() || !options.certificate.empty()) return absl::OkStatus();
  return InvalidArgument(
      "--%s_ca is set and --%s_cert is not: without a certificate of its own a server speaks plain text and asks "
      "nobody for one",
      options.flags, options.flags);
}

absl::Status CheckChannelTls(const TlsOptions& options) {
  if (!options.ca.empty() || (options.certificate.empty() && options.key.empty())) return absl::OkStatus();
  return InvalidArgument(
      "--%s_%s is set and --%s_ca is not: without certificates to trust connections are plain text and nobody is shown "
      "one",
      options.flags, options.certificate.empty() ? "key" : "cert", options.flags);
}

absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsOptions& options) {
  if (options.certificate.empty() != options.key.empty()) {
    return InvalidArgument("--%s_cert and --%s_key need each other; only --%s_%s is set", options.flags, options.flags,
                           options.flags, options.key.empty() ? "cert" : "key");
  }
  TlsFiles files;
  BATON_ASSIGN_OR_RETURN(files.key, ReadPem(options.flags + "_key", options.key, HoldsPrivateKey, "private key"));
  BATON_ASSIGN_OR_RETURN(files.certificate,
                         ReadPem(options.flags + "_cert", options.certificate, HoldsCertificate, "certificate"));
  BATON_ASSIGN_OR_RETURN(files.ca, ReadPem(options.flags + "_ca", options.ca, HoldsCertificate, "certificate"));
  return files;
}

}  // namespace baton
