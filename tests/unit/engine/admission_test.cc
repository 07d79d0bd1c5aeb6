#include "common/engine/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "tests/fakes/engine_harness.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr AdmissionLimits kLimits{16, 13, 97, 0};

EngineRequest Request(uint32_t prompt_size, uint32_t max_tokens) {
  return MakeRequest(1, MakePrompt(prompt_size, 1), max_tokens, std::make_shared<RecordingSink>());
}

void ExpectRefused(const EngineRequest& request, absl::StatusCode code, const std::string& text,
                   const AdmissionLimits& limits = kLimits) {
  const absl::Status status = CheckRequest(request, limits);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(StatusMessage(status), HasSubstr(text));
}

TEST(Admission, LIM_03_WhatCanNeverFitThePoolIsRefusedWithTheNumbers) {
  EXPECT_TRUE(CheckRequest(Request(12 * 16, 17), kLimits).ok());
  EXPECT_TRUE(CheckRequest(Request(13 * 16, 1), kLimits).ok());
  ExpectRefused(Request(13 * 16, 2), absl::StatusCode::kFailedPrecondition,
                "209 tokens of KV need 14 blocks, the pool has 13");
  ExpectRefused(Request(14 * 16, 1), absl::StatusCode::kFailedPrecondition, "need 14 blocks, the pool has 13");
  ExpectRefused(Request(20, 4294967295u), absl::StatusCode::kFailedPrecondition, "the pool has 13");
  EngineRequest prefill = Request(13 * 16, 500);  // a prefill worker keeps the prompt alone
  prefill.work = WorkKind::kPrefill;
  EXPECT_TRUE(CheckRequest(prefill, kLimits).ok());
}

TEST(Admission, LongerThanTheModelIsRefusedWithBothNumbers) {
  const AdmissionLimits limits{16, 13, 97, 40};
  EXPECT_TRUE(CheckRequest(Request(30, 10), limits).ok());
  ExpectRefused(Request(30, 11), absl::StatusCode::kFailedPrecondition, "make 41, the model takes 40", limits);
}

TEST(Admission, LIM_05_AnEmptyPromptIsRefused) {
  ExpectRefused(Request(0, 4), absl::StatusCode::kInvalidArgument, "the prompt has no tokens");
}

TEST(Admission, SMP_07_TokenIdsAreCheckedAgainInTheWorker) {
  for (const TokenId bad : {97, -1, 2147483647}) {
    EngineRequest request = Request(20, 4);
    request.prompt[7] = bad;
    ExpectRefused(request, absl::StatusCode::kInvalidArgument, "prompt has token id " + std::to_string(bad));
    request = Request(20, 4);
    request.choices[0].generated = {bad};
    ExpectRefused(request, absl::StatusCode::kInvalidArgument, "generated has token id");
    request = Request(20, 4);
    request.sampling.stop_token_ids = {bad};
    ExpectRefused(request, absl::StatusCode::kInvalidArgument, "stop_token_ids has id");
  }
}

TEST(Admission, ChoicesAreChecked) {
  EngineRequest request = Request(20, 4);
  request.choices = {};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "0 choices, allowed is 1 to 64");
  request.choices = {{3, {}}, {3, {}}};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "choice index 3 appears twice");
  request.choices = {{64, {}}};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "choice index is 64");
  request.choices = {{0, {1, 2, 3, 4}}};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "4 generated tokens already, max_tokens is 4");
  request.choices = {{0, {1}}};
  request.work = WorkKind::kPrefill;
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "a prefill takes none");
  request.work = WorkKind::kDecode;
  request.choices = {{0, {}}};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "a decode needs one");
  request.sink = nullptr;
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "no sink");
}

TEST(Admission, PD_05_HandedOverBlocksMustBeExactlyThePromptsAndOneForEachChoice) {
  EngineRequest request = Request(33, 4);
  request.work = WorkKind::kDecode;
  request.choices = {{0, {1}}, {1, {2}}};
  request.blocks = {0, 1, 2, 3, 4};
  EXPECT_TRUE(CheckRequest(request, kLimits).ok());
  request.blocks = {0, 1, 2, 3};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "4 blocks handed over, expected 5");
  request.blocks = {};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "0 blocks handed over");
  request.blocks = {0, 1, 2, 3, 13};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "block 13 handed over, the pool has 13");
  request.blocks = {0, 1, 2, 3, 2};
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "block 2 handed over twice");
  EngineRequest generate = Request(20, 4);
  generate.blocks = {1};
  ExpectRefused(generate, absl::StatusCode::kInvalidArgument, "expected 0");
}

}  // namespace
}  // namespace baton
