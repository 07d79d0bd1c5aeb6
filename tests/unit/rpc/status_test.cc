#include "common/rpc/status.h"

#include <gtest/gtest.h>

#include "common/base/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace baton {
namespace {

TEST(Status, InvalidFieldsCarriesEveryViolationInTheTrailer) {
  const grpc::Status status = InvalidFields({{"sampling.top_p", "is 2, must be in (0, 1]"}, {"prompts", "has none"}});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  google::rpc::Status rich;
  google::rpc::BadRequest bad;
  ASSERT_TRUE(rich.ParseFromString(status.error_details()));
  EXPECT_EQ(rich.code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(rich.details(0).UnpackTo(&bad));
  ASSERT_EQ(bad.field_violations_size(), 2);
  EXPECT_EQ(bad.field_violations(0).field(), "sampling.top_p");
}

TEST(Status, ExhaustedRetrySaysWhenToComeBack) {
  const grpc::Status status = ExhaustedRetry("queue is full", std::chrono::milliseconds(1500));
  google::rpc::Status rich;
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(rich.ParseFromString(status.error_details()));
  ASSERT_TRUE(rich.details(0).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(Status, AHugeMessageIsShortenedForTheTrailer) {
  EXPECT_LT(ToGrpc(Internal("%s", std::string(100'000, 'x'))).error_message().size(), 3000u);
  EXPECT_LT(InvalidFields({{"text", std::string(100'000, 'x')}}).error_message().size(), 3000u);
}

}  // namespace
}  // namespace baton
