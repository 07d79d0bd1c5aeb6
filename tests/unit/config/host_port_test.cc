#include "common/config/host_port.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(HostPort, NamesAndAddressesWithAPort) {
  const auto name = ParseHostPort("decode.chat.svc:8102");
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(name->host, "decode.chat.svc");
  EXPECT_EQ(name->port, 8102);
  const auto v6 = ParseHostPort("[::1]:65535");
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, 65535);
}

TEST(HostPort, RefusesWhatIsNoneAndQuotesIt) {
  for (const char* text :
       {"", "a", ":80", "a:", "a:0", "a:65536", "a:99999", "a:-1", "a:80x", "a: 80", "::1:80", "[]:80", "::1"}) {
    const auto parsed = ParseHostPort(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(parsed.status().message()).find("'" + std::string(text) + "'"), std::string::npos)
        << parsed.status();
  }
}

}  // namespace
}  // namespace baton
