#include <gmock/gmock.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "nlohmann/json.hpp"
#include "services/cli/answer_json.h"
#include "services/cli/call_error.h"
#include "services/cli/choice_order.h"
#include "services/cli/report_text.h"

namespace baton::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

template <typename Detail>
std::string WithDetail(const Detail& detail) {
  google::rpc::Status status;
  status.add_details()->PackFrom(detail);
  return status.SerializeAsString();
}

TEST(CallErrorText, NamesCodeAndMessageOnOneLine) {
  EXPECT_EQ(CallErrorText({5, "no model 'x'\nat all", ""}), "NOT_FOUND: no model 'x' at all");
  EXPECT_EQ(CallErrorText({14, "", "not a status"}), "UNAVAILABLE");
}

TEST(CallErrorText, AddsViolationsThatTheMessageDoesNotName) {
  google::rpc::BadRequest bad;
  auto* first = bad.add_field_violations();
  first->set_field("sampling.top_p");
  first->set_description("is 7");
  auto* second = bad.add_field_violations();
  second->set_field("prompts");
  second->set_description("is empty");
  EXPECT_EQ(CallErrorText({3, "sampling.top_p: is 7", WithDetail(bad)}),
            "INVALID_ARGUMENT: sampling.top_p: is 7 [prompts: is empty]");
}

TEST(CallErrorText, TellsWhenToTryAgain) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  EXPECT_EQ(CallErrorText({8, "full", WithDetail(retry)}), "RESOURCE_EXHAUSTED: full (retry after 1.50 s)");
}

TEST(ChoiceOrder, OneChoiceStreamsWithoutAHeading) {
  ChoiceOrder order(1);
  EXPECT_EQ(order.Add(0, "Hel", false), "Hel");
  EXPECT_EQ(order.Add(0, "lo", true), "lo\n");
}

TEST(ChoiceOrder, LaterChoicesWaitForTheFirst) {
  ChoiceOrder order(3);
  EXPECT_EQ(order.Add(1, "B", false), "");
  EXPECT_EQ(order.Add(0, "A", false), "=== choice 0 ===\nA");
  EXPECT_EQ(order.Add(2, "C", true), "");
  EXPECT_EQ(order.Add(0, "a", true), "a\n=== choice 1 ===\nB");
  EXPECT_EQ(order.Add(1, "b", true), "b\n=== choice 2 ===\nC\n");
}

TEST(ChoiceOrder, ChoicesNobodyAskedForAreIgnored) {
  ChoiceOrder order(1);
  EXPECT_EQ(order.Add(7, "x", true), "");
  EXPECT_EQ(order.Add(0, "a", true), "a\n");
  EXPECT_EQ(order.Add(0, "late", false), "");
}

v1::PromptReport MakeReport() {
  v1::PromptReport report;
  report.mutable_usage()->set_prompt_tokens(1200);
  report.mutable_usage()->set_cached_prompt_tokens(16);
  report.mutable_usage()->set_completion_tokens(48);
  report.mutable_timings()->set_total_seconds(0.5);
  report.mutable_timings()->set_transfer_seconds(0.5);
  report.mutable_timings()->set_time_to_first_token_seconds(0.04);
  report.mutable_route()->set_prefill_worker("a:1");
  report.mutable_route()->set_decode_worker("b:2");
  report.mutable_route()->set_reason("long_prompt");
  report.mutable_route()->set_kv_bytes(1024 * 1024);
  report.mutable_route()->set_kv_transport("ucx/shm");
  return report;
}

TEST(ReportText, TellsTokensTimesWorkersAndKv) {
  const std::string text = ReportText(MakeReport(), {0.6, 0.05, GapSummary{47, 0.012, 0.011, 0.02}});
  EXPECT_THAT(text, HasSubstr("1,200 prompt (16 cached), 48 generated"));
  EXPECT_THAT(text, HasSubstr("50.0 ms at the client, 40.0 ms at the router"));
  EXPECT_THAT(text, HasSubstr("mean 12.0 ms, p50 11.0 ms, p99 20.0 ms"));
  EXPECT_THAT(text, HasSubstr("a:1 -> b:2 (long_prompt)"));
  EXPECT_THAT(text, HasSubstr("1.0 MiB over ucx/shm in 500.0 ms (2.0 MiB/s)"));
}

TEST(ReportText, OneWorkerShowsOnceAndWithoutKv) {
  v1::PromptReport report = MakeReport();
  report.mutable_route()->set_decode_worker("a:1");
  report.mutable_route()->set_kv_bytes(0);
  const std::string text = ReportText(report, {0.6, {}, {}});
  EXPECT_THAT(text, HasSubstr("a:1 (long_prompt)"));
  EXPECT_THAT(text, HasSubstr("KV moved  none"));
  EXPECT_THAT(text, Not(HasSubstr("ITL")));
}

TEST(AnswerJson, DeltaHasAnEndOnlyAtTheEnd) {
  v1::ChoiceDelta delta;
  delta.set_index(1);
  delta.set_token_index(4);
  delta.set_text("a\n\"b\"");
  delta.add_token_ids(17);
  const auto running = nlohmann::json::parse(DeltaJson(delta));
  EXPECT_EQ(running["type"], "delta");
  EXPECT_EQ(running["text"], "a\n\"b\"");
  EXPECT_EQ(running["token_ids"], nlohmann::json::array({17}));
  EXPECT_FALSE(running.contains("finish_reason"));
  delta.set_finish_reason(v1::FINISH_REASON_STOP);
  delta.set_matched_stop_token_id(2);
  const auto ended = nlohmann::json::parse(DeltaJson(delta));
  EXPECT_EQ(ended["finish_reason"], "stop");
  EXPECT_EQ(ended["matched_stop_token_id"], 2);
  EXPECT_THAT(DeltaJson(delta), Not(HasSubstr("\n")));
}

TEST(AnswerJson, SeedKeepsAllItsBits) {
  const auto json = nlohmann::json::parse(StartJson("id", "model", UINT64_MAX));
  EXPECT_EQ(json["seed"].get<uint64_t>(), UINT64_MAX);
}

TEST(AnswerJson, ReportHasWhatTheTextHas) {
  const auto json = nlohmann::json::parse(ReportJson(MakeReport(), {0.6, 0.05, GapSummary{47, 0.012, 0.011, 0.02}}));
  EXPECT_EQ(json["usage"]["completion_tokens"], 48);
  EXPECT_EQ(json["route"]["kv_bytes"], 1024 * 1024);
  EXPECT_EQ(json["client"]["inter_token_latency_seconds"]["p99"], 0.02);
}

}  // namespace
}  // namespace baton::cli
