#include "common/rpc/tls.h"

#include <gtest/gtest.h>

#include <fstream>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"

namespace baton {
namespace {

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "tls_test_" + name;
  std::ofstream(path) << text;
  return path;
}

std::string Block(const std::string& kind) {
  return "a comment\n-----BEGIN " + kind + "-----\nAAAA\n-----END " + kind + "-----\n";
}

void ExpectRefused(const absl::Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(std::string(status.message()), message);
}

TEST(TlsFiles, AreReadWhole) {
  const std::string certificate = WriteFile("certificate", Block("CERTIFICATE"));
  for (const char* kind : {"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"}) {
    const auto files = ReadTlsFiles({certificate, WriteFile("key", Block(kind)), certificate});
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(files->certificate, Block("CERTIFICATE"));
    EXPECT_EQ(files->key, Block(kind));
    EXPECT_EQ(files->ca, Block("CERTIFICATE"));
  }
  EXPECT_EQ(ReadTlsFiles({})->certificate, "");
}

TEST(TlsFiles, WithoutABlockOfTheirKindAreRefusedByFlagAndName) {
  const std::string certificate = WriteFile("certificate", Block("CERTIFICATE"));
  const std::string key = WriteFile("key", Block("PRIVATE KEY"));
  const std::string text = WriteFile("text", "root:x:0:0\nPRIVATE KEY-----\n");
  ExpectRefused(ReadTlsFiles({text, key}).status(), "--tls_cert: " + text + " holds no certificate in PEM");
  ExpectRefused(ReadTlsFiles({key, key}).status(), "--tls_cert: " + key + " holds no certificate in PEM");
  ExpectRefused(ReadTlsFiles({certificate, text}).status(), "--tls_key: " + text + " holds no private key in PEM");
  ExpectRefused(ReadTlsFiles({certificate, certificate}).status(),
                "--tls_key: " + certificate + " holds no private key in PEM");
  ExpectRefused(ReadTlsFiles({.ca = text, .flags = "worker_tls"}).status(),
                "--worker_tls_ca: " + text + " holds no certificate in PEM");
}

TEST(TlsFiles, AreCheckedByServersAndChannels) {
  const std::string text = WriteFile("text", "root:x:0:0\n");
  const std::string message = "--tls_ca: " + text + " holds no certificate in PEM";
  ServerOptions server;
  server.tls.ca = text;
  ExpectRefused(RpcServer::Start(server, {}, {}).status(), message);
  ExpectRefused(MakeChannel("127.0.0.1:1", {.tls = {.ca = text}}).status(), message);
}

TEST(TlsFlags, ThatWouldLeaveAServerInPlainTextAreRefused) {
  const std::string certificate = WriteFile("certificate", Block("CERTIFICATE"));
  ServerOptions server;
  server.tls.ca = certificate;
  ExpectRefused(RpcServer::Start(server, {}, {}).status(),
                "--tls_ca is set and --tls_cert is not: without a certificate of its own a server speaks plain text "
                "and asks nobody for one");
  EXPECT_TRUE(CheckServerTls({}).ok());
  EXPECT_TRUE(CheckServerTls({.certificate = "a", .key = "b"}).ok());
  EXPECT_TRUE(CheckServerTls({.certificate = "a", .key = "b", .ca = "c"}).ok());
}

TEST(TlsFlags, ThatWouldLeaveAChannelInPlainTextAreRefused) {
  const std::string certificate = WriteFile("certificate", Block("CERTIFICATE"));
  const std::string key = WriteFile("key", Block("PRIVATE KEY"));
  const TlsOptions shown{.certificate = certificate, .key = key, .flags = "worker_tls"};
  const std::string rest =
      " is set and --worker_tls_ca is not: without certificates to trust connections are plain text and nobody is "
      "shown one";
  ExpectRefused(MakeChannel("127.0.0.1:1", {.tls = shown}).status(), "--worker_tls_cert" + rest);
  ExpectRefused(CheckChannelTls({.key = key, .flags = "worker_tls"}), "--worker_tls_key" + rest);
  EXPECT_TRUE(CheckChannelTls({}).ok());
  EXPECT_TRUE(CheckChannelTls({.ca = "c"}).ok());
  EXPECT_TRUE(CheckChannelTls({.certificate = "a", .key = "b", .ca = "c"}).ok());
}

}  // namespace
}  // namespace baton
