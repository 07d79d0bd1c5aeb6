#include "common/sampling/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/base/status.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kVocab = 128256;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void ExpectRefused(const SamplingParams& params, const std::string& field, uint32_t vocab = kVocab) {
  const absl::Status status = Validate(params, vocab);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
  EXPECT_THAT(StatusMessage(status), HasSubstr(field));
}

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(Validate({}, kVocab).ok()); }

TEST(SamplingParams, SMP_01_LegalExtremesAreAccepted) {
  for (const float temperature : {0.0f, 1e-9f, 1e-4f, 2.0f}) {
    for (const float top_p : {0.0f, 1e-4f, 1.0f}) {
      SamplingParams params;
      params.temperature = temperature;
      params.top_p = top_p;
      EXPECT_TRUE(Validate(params, kVocab).ok()) << temperature << " " << top_p;
    }
  }
}

TEST(SamplingParams, SMP_01_NanNegativeAndOutOfRangeAreRefused) {
  for (const float bad : {kNan, -1.0f, 2.5f, kInf, -kInf}) {
    SamplingParams params;
    params.temperature = bad;
    ExpectRefused(params, "temperature");
    params = {};
    params.top_p = bad;
    ExpectRefused(params, "top_p");
    params = {};
    params.min_p = bad;
    ExpectRefused(params, "min_p");
  }
  for (const float bad : {kNan, kInf, 0.0f, -1.0f}) {
    SamplingParams params;
    params.repetition_penalty = bad;
    ExpectRefused(params, "repetition_penalty");
  }
  for (const float bad : {kNan, kInf, 2.1f, -2.1f}) {
    SamplingParams params;
    params.presence_penalty = bad;
    ExpectRefused(params, "presence_penalty");
    params = {};
    params.frequency_penalty = bad;
    ExpectRefused(params, "frequency_penalty");
  }
}

TEST(SamplingParams, SMP_02_TopKMayExceedTheVocabularyLogprobsMayNot) {
  SamplingParams params;
  params.top_k = 9999999;
  EXPECT_TRUE(Validate(params, 5).ok());
  params.logprobs = 5;
  EXPECT_TRUE(Validate(params, 5).ok());
  for (const uint32_t bad : {6u, 1000000u, 2000000000u, 4294967295u}) {
    params.logprobs = bad;
    ExpectRefused(params, "logprobs", 5);
  }
  params.logprobs = 21;
  ExpectRefused(params, "logprobs is 21, the limit is 20");
}

TEST(SamplingParams, SMP_07_IdsOutsideTheVocabularyAreRefusedByFieldAndId) {
  for (const TokenId bad : {static_cast<TokenId>(kVocab), -1, std::numeric_limits<TokenId>::max()}) {
    SamplingParams params;
    params.min_tokens = 1;
    params.stop_token_ids = {bad};
    ExpectRefused(params, "stop_token_ids has id " + std::to_string(bad));
    params = {};
    params.eos_token_ids = {bad};
    ExpectRefused(params, "eos_token_ids has id " + std::to_string(bad));
    params = {};
    params.logit_bias = {{bad, 5.0f}};
    ExpectRefused(params, "logit_bias has id " + std::to_string(bad));
  }
  SamplingParams params;
  params.logit_bias = {{200000, -100.0f}};
  ExpectRefused(params, "logit_bias has id 200000, the vocabulary has 128256");
}

TEST(SamplingParams, SMP_07_BiasOutsideItsRangeIsRefused) {
  for (const float bad : {kNan, 1e30f, -100.5f, kInf}) {
    SamplingParams params;
    params.logit_bias = {{1, bad}};
    ExpectRefused(params, "logit_bias of id 1");
  }
}

TEST(SamplingParams, ListsAreBounded) {
  SamplingParams params;
  params.stop_token_ids.assign(kMaxStopTokenIds + 1, 1);
  ExpectRefused(params, "stop_token_ids has 257 entries, the limit is 256");
  params = {};
  params.logit_bias.assign(kMaxLogitBias + 1, {1, 0.0f});
  ExpectRefused(params, "logit_bias has 1025 entries, the limit is 1024");
}

TEST(SamplingParams, LIM_01_MaxTokensZeroIsRefused) {
  SamplingParams params;
  params.max_tokens = 0;
  ExpectRefused(params, "max_tokens is 0");
}

TEST(SamplingParams, MinTokensBeyondWhatCanBeIsRefused) {
  SamplingParams params;
  params.max_tokens = 4;
  params.min_tokens = 5;
  ExpectRefused(params, "min_tokens is 5, max_tokens is 4");
  params.min_tokens = 1;
  params.stop_token_ids = {0, 1, 2, 3, 4};
  ExpectRefused(params, "all 5 ids of the vocabulary are stop ids", 5);
}

}  // namespace
}  // namespace baton
