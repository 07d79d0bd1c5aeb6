#include "common/telemetry/trace_context.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContext, ComesOutAsItWentIn) {
  const auto context = ParseTraceContext(kTraceparent, "vendor=1,other=2");
  ASSERT_TRUE(context);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->traceparent(), kTraceparent);
  EXPECT_EQ(context->trace_id_hex(), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->state, "vendor=1,other=2");
}

TEST(TraceContext, OnlyTheSampledFlagIsRead) {
  EXPECT_FALSE(ParseTraceContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "")->sampled);
  EXPECT_FALSE(ParseTraceContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02", "")->sampled);
  EXPECT_TRUE(ParseTraceContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03", "")->sampled);
}

TEST(TraceContext, InvalidOnesAreNone) {
  for (const char* text : {
           "",
           "00",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",       // no flags
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",     // half a flag
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",  // version 00 has no more fields
           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",    // version ff
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",    // upper case
           "00-00000000000000000000000000000000-b7ad6b7169203331-01",    // zero ids
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
       }) {
    EXPECT_FALSE(ParseTraceContext(text, "")) << text;
  }
}

TEST(TraceContext, LaterVersionsMayCarryMore) {
  EXPECT_TRUE(ParseTraceContext("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what.comes", ""));
  EXPECT_FALSE(ParseTraceContext("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01what", ""));
}

TEST(TraceContext, AStateThatIsTooLongOrNotPrintableIsDropped) {
  EXPECT_EQ(ParseTraceContext(kTraceparent, std::string(513, 'a'))->state, "");
  EXPECT_EQ(ParseTraceContext(kTraceparent, "a=\x01")->state, "");
}

TEST(TraceContext, AChildKeepsTheTraceAndHasAnIdOfItsOwn) {
  const TraceContext root = TraceContext::MakeRoot(), child = root.Child();
  EXPECT_EQ(child.trace_id, root.trace_id);
  EXPECT_NE(child.span_id, SpanId{});
  EXPECT_NE(child.Child().span_id, child.span_id);
  EXPECT_NE(TraceContext::MakeRoot().trace_id, root.trace_id);
  EXPECT_TRUE(ParseTraceContext(child.traceparent(), ""));
}

TEST(SampledByRatio, TakesAShareOfTheIdsAndAlwaysTheSame) {
  int sampled = 0;
  for (int i = 0; i < 4000; ++i) {
    const TraceId id = TraceContext::MakeRoot().trace_id;
    EXPECT_FALSE(SampledByRatio(id, 0));
    EXPECT_TRUE(SampledByRatio(id, 1));
    EXPECT_EQ(SampledByRatio(id, 0.25), SampledByRatio(id, 0.25));
    EXPECT_LE(SampledByRatio(id, 0.25), SampledByRatio(id, 0.5)) << "a larger share has all of a smaller one";
    sampled += SampledByRatio(id, 0.25);
  }
  EXPECT_NEAR(sampled, 1000, 200);  // seven standard deviations
}

}  // namespace
}  // namespace baton
