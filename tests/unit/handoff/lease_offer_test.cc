#include "common/handoff/lease_offer.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

const TargetDescriptor kTarget{.incarnation = Incarnation{1},
                               .layout_hash = LayoutHash{2},
                               .numerics_hash = NumericsHash{3},
                               .secret = 4,
                               .control_host = "10.0.0.7",
                               .control_port = 9103,
                               .transport = "ucx",
                               .transport_descriptor = std::string("\0bytes", 6)};

TEST(LeaseOffer, RoundTrip) {
  const LeaseOffer offer{{LeaseId{7}, 8, 9}, 3, {10, 11, 12}, Encode(kTarget)};
  const auto decoded = DecodeLeaseOffer(Encode(offer));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->key, offer.key);
  EXPECT_EQ(decoded->first_block, 3u);
  EXPECT_EQ(decoded->blocks, offer.blocks);
  const auto target = DecodeTargetDescriptor(decoded->target);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->incarnation, kTarget.incarnation);
  EXPECT_EQ(target->layout_hash, kTarget.layout_hash);
  EXPECT_EQ(target->numerics_hash, kTarget.numerics_hash);
  EXPECT_EQ(target->secret, 4u);
  EXPECT_EQ(target->control_host, "10.0.0.7");
  EXPECT_EQ(target->control_port, 9103);
  EXPECT_EQ(target->transport, "ucx");
  EXPECT_EQ(target->transport_descriptor, kTarget.transport_descriptor);
}

TEST(LeaseOffer, EveryTruncationAndExtensionIsRefused) {
  const std::string offer = Encode(LeaseOffer{{LeaseId{7}, 8, 9}, 3, {10, 11}, "t"});
  for (size_t size = 0; size < offer.size(); ++size) EXPECT_FALSE(DecodeLeaseOffer(offer.substr(0, size)).ok());
  EXPECT_FALSE(DecodeLeaseOffer(offer + "x").ok());
  const std::string target = Encode(kTarget);
  for (size_t size = 0; size < target.size(); ++size) EXPECT_FALSE(DecodeTargetDescriptor(target.substr(0, size)).ok());
  EXPECT_FALSE(DecodeTargetDescriptor(target + "x").ok());
}

}  // namespace
}  // namespace baton
