#include "common/rpc/server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/rpc/channel.h"

namespace baton {
namespace {

class EmptyService final : public internal::v1::WorkerService::CallbackService {};

TEST(RpcServer, ListensOnAFreePortAndRefusesATakenOne) {
  EmptyService service, other;
  const auto server = RpcServer::Start({}, {&service}, {"baton.test"});
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_GT((*server)->port(), 0);
  ServerOptions taken;
  taken.port = (*server)->port();
  EXPECT_EQ(RpcServer::Start(taken, {&other}, {}).status().code(), absl::StatusCode::kUnavailable);
}

TEST(RpcServer, AMethodNobodyImplementsIsUnimplemented) {
  EmptyService service;
  const auto server = RpcServer::Start({}, {&service}, {});
  ASSERT_TRUE(server.ok());
  const auto channel = MakeChannel("127.0.0.1:" + std::to_string((*server)->port()), {});
  ASSERT_TRUE(channel.ok());
  auto stub = internal::v1::WorkerService::NewStub(*channel);
  grpc::ClientContext context;
  internal::v1::DrainResponse response;
  EXPECT_EQ(stub->Drain(&context, {}, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(RpcServer, TlsWithoutAKeyOrWithAMissingFileIsRefusedByName) {
  EmptyService service;
  ServerOptions options;
  options.tls.certificate = "/no/such/certificate.pem";
  EXPECT_EQ(RpcServer::Start(options, {&service}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  options.tls.key = "/no/such/key.pem";
  const auto status = RpcServer::Start(options, {&service}, {}).status();
  EXPECT_NE(std::string(status.message()).find("/no/such/key.pem"), std::string::npos) << status;
}

}  // namespace
}  // namespace baton
