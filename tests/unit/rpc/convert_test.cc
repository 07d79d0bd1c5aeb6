#include "common/rpc/convert.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Convert, EverySamplingParameterSurvivesTheWire) {
  SamplingParams params;
  params.max_tokens = 7;
  params.min_tokens = 3;
  params.temperature = 0.25f;
  params.top_p = 0.5f;
  params.top_k = 40;
  params.min_p = 0.05f;
  params.repetition_penalty = 1.1f;
  params.presence_penalty = -1;
  params.frequency_penalty = 1.5f;
  params.seed = 0xffffffffffffffffULL;
  params.stop_token_ids = {1, 2};
  params.eos_token_ids = {3};
  params.ignore_eos = true;
  params.logit_bias = {{5, -100.0f}, {9, 1.0f}};
  params.logprobs = 0;
  internal::v1::Sampling wire;
  ToProto(params, &wire);
  EXPECT_EQ(FromProto(wire), params);
  params.logprobs.reset();
  wire.Clear();
  ToProto(params, &wire);
  EXPECT_EQ(FromProto(wire), params);
}

TEST(Convert, TokensKeepLogprobsBitForBitAndTheirEnd) {
  for (FinishReason finish : {FinishReason::kNone, FinishReason::kStop, FinishReason::kLength, FinishReason::kError}) {
    const SampledToken token{42, -0.1f, {{42, -0.1f}, {7, -3.25f}}, finish};
    internal::v1::Token wire;
    ToProto(2, 5, token, &wire);
    EXPECT_EQ(wire.choice(), 2u);
    EXPECT_EQ(wire.index(), 5u);
    EXPECT_EQ(FromProto(wire), token);
  }
}

TEST(Convert, GgufVocabularyKeepsBytesAndAbsence) {
  TextAssets assets;
  assets.chat_template = "{{ x }}";
  assets.gguf =
      GgufVocabulary{.model = "llama", .tokens = {"a", "\xff"}, .scores = {0, -1}, .types = {1, 6}, .add_bos = false};
  internal::v1::GetModelTextResponse wire;
  ToProto(assets, &wire);
  const TextAssets back = FromProto(wire);
  ASSERT_TRUE(back.gguf.has_value());
  EXPECT_EQ(back.gguf->tokens, assets.gguf->tokens);
  EXPECT_EQ(back.gguf->scores, assets.gguf->scores);
  EXPECT_EQ(back.gguf->add_bos, std::optional<bool>(false));
  EXPECT_EQ(back.gguf->bos_id, std::nullopt);
  EXPECT_EQ(back.chat_template, assets.chat_template);
}

}  // namespace
}  // namespace baton
