#include "common/routing/pairing.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

PairingRequest LongPrompt() { return {.prompt_tokens = 1000, .max_tokens = 100}; }

TEST(Pairing, PrefersThePrefillWorkerWithTheFewestTokensToRun) {
  const std::vector<PairingCandidate> decode(1);
  std::vector<PairingCandidate> prefill(3);
  prefill[0].queued_prompt_tokens = 500;
  prefill[1].queued_prompt_tokens = 400;
  prefill[2].queued_prompt_tokens = 900;
  EXPECT_EQ(ChoosePair(LongPrompt(), prefill, decode).prefill, 1u);
  prefill[2].cached_blocks = 62;  // 992 tokens of the 1,000: 900 + 8 against 400 + 1,000
  EXPECT_EQ(ChoosePair(LongPrompt(), prefill, decode).prefill, 2u);
}

TEST(Pairing, PrefersTheDecodeWorkerWithTheFewestBlocksAndSequences) {
  std::vector<PairingCandidate> prefill(1), decode(2);
  decode[0].blocks_in_use = 100;
  decode[1].blocks_in_use = 90;
  decode[1].running_sequences = 20;
  EXPECT_EQ(ChoosePair(LongPrompt(), prefill, decode).decode, 0u);
  decode[1].cached_blocks = 30;
  EXPECT_EQ(ChoosePair(LongPrompt(), prefill, decode).decode, 1u);
}

TEST(Pairing, OnlyWorkersOfEqualLayoutAndNumericsPair) {
  std::vector<PairingCandidate> prefill(2), decode(1);
  decode[0].numerics = NumericsHash{7};
  prefill[0].numerics = NumericsHash{8};
  prefill[1].numerics = NumericsHash{7};
  prefill[1].queued_prompt_tokens = 1'000'000;
  EXPECT_EQ(ChoosePair(LongPrompt(), prefill, decode).prefill, 1u);
  prefill[1].layout = LayoutHash{1};
  const PairingDecision decision = ChoosePair(LongPrompt(), prefill, decode);
  EXPECT_EQ(decision.prefill, std::nullopt);
  EXPECT_EQ(decision.reason, PairingReason::kNoPrefillWorker);
}

TEST(Pairing, UnequalNumericsPairOnlyWhereBothAllowThemAndLayoutsAreEqual) {
  std::vector<PairingCandidate> prefill(1), decode(1);
  prefill[0].numerics = NumericsHash{8};
  const auto source = [&] { return ChoosePair(LongPrompt(), prefill, decode).prefill; };
  prefill[0].allow_mixed_numerics = true;
  EXPECT_EQ(source(), std::nullopt);
  EXPECT_EQ(WhyNoPair(prefill[0], decode[0]),
            "numerics hash 0000000000000008 of the prefill worker, 0000000000000000 of the decode worker, and they do "
            "not both allow mixed numerics");
  prefill[0].allow_mixed_numerics = false;
  decode[0].allow_mixed_numerics = true;
  EXPECT_EQ(source(), std::nullopt);
  prefill[0].allow_mixed_numerics = true;
  EXPECT_EQ(source(), 0u);
  prefill[0].layout = LayoutHash{1};
  EXPECT_EQ(source(), std::nullopt);
  EXPECT_EQ(WhyNoPair(prefill[0], decode[0]),
            "layout hash 0000000000000001 of the prefill worker, 0000000000000000 of the decode worker");
}

TEST(Pairing, EqualNumericsComeFirstHoweverLongTheirQueue) {
  std::vector<PairingCandidate> prefill(3), decode(1);
  for (PairingCandidate& worker : prefill) worker.allow_mixed_numerics = true;
  decode[0].allow_mixed_numerics = true;
  decode[0].numerics = NumericsHash{7};
  prefill[1].numerics = NumericsHash{7};
  prefill[1].queued_prompt_tokens = 1'000'000;
  prefill[0].queued_prompt_tokens = 10;
  EXPECT_EQ(ChoosePair(LongPrompt(), prefill, decode).prefill, 1u);
  PairingRequest single = LongPrompt();
  single.max_tokens = 1;
  single.numerics = NumericsHash{7};
  EXPECT_EQ(ChoosePair(single, prefill, decode).prefill, 1u);
  prefill[1].pool_blocks = 1;
  EXPECT_EQ(ChoosePair(LongPrompt(), prefill, decode).prefill, 2u) << "else the shortest queue of the others";
}

TEST(Pairing, AutoReadsShortPromptsAndCachedOnesOnTheDecodeWorker) {
  std::vector<PairingCandidate> prefill(1), decode(1);
  PairingRequest request{.prompt_tokens = 32, .max_tokens = 5, .local_prefill_tokens = 32};
  EXPECT_EQ(ChoosePair(request, prefill, decode).reason, PairingReason::kShortPrompt);
  request.prompt_tokens = 33;
  EXPECT_EQ(ChoosePair(request, prefill, decode).reason, PairingReason::kLongPrompt);
  decode[0].cached_blocks = 1;
  EXPECT_EQ(ChoosePair(request, prefill, decode).reason, PairingReason::kPrefixOnDecode);
  EXPECT_EQ(ChoosePair(request, prefill, decode).prefill, std::nullopt);
}

TEST(Pairing, TheLastPromptTokenIsNeverCached) {
  std::vector<PairingCandidate> prefill(1), decode(1);
  decode[0].cached_blocks = 4;
  const PairingRequest request{.prompt_tokens = 64, .max_tokens = 5, .local_prefill_tokens = 15};
  EXPECT_EQ(ChoosePair(request, prefill, decode).reason, PairingReason::kLongPrompt) << "16 tokens are uncached";
}

TEST(Pairing, PoliciesAreObeyed) {
  const std::vector<PairingCandidate> one(1);
  PairingRequest request = LongPrompt();
  request.policy = DisaggregationPolicy::kNever;
  EXPECT_EQ(ChoosePair(request, one, one).prefill, std::nullopt);
  request.policy = DisaggregationPolicy::kAlways;
  request.prompt_tokens = 1;
  EXPECT_EQ(ChoosePair(request, one, one).prefill, 0u);
  EXPECT_EQ(ChoosePair(request, one, one).reason, PairingReason::kPolicy);
}

TEST(Pairing, ASingleTokenNeedsNoDecodeWorker) {
  const std::vector<PairingCandidate> none, one(1);
  PairingRequest request = LongPrompt();
  request.max_tokens = 1;
  EXPECT_EQ(ChoosePair(request, one, none).reason, PairingReason::kSingleToken);
  EXPECT_EQ(ChoosePair(request, one, none).prefill, 0u);
  EXPECT_EQ(ChoosePair(request, none, one).decode, 0u) << "without a prefill worker a decode worker does it";
}

TEST(Pairing, WithoutWorkersNothingIsChosen) {
  const std::vector<PairingCandidate> none, one(1);
  const PairingDecision decision = ChoosePair(LongPrompt(), one, none);
  EXPECT_EQ(decision.prefill, std::nullopt);
  EXPECT_EQ(decision.decode, std::nullopt);
  EXPECT_EQ(decision.reason, PairingReason::kNoDecodeWorker);
  EXPECT_EQ(ChoosePair(LongPrompt(), none, one).reason, PairingReason::kNoPrefillWorker);
}

TEST(Pairing, AResumeIsReadByTheDecodeWorker) {
  const std::vector<PairingCandidate> one(1);
  PairingRequest request = LongPrompt();
  request.resume = true;
  EXPECT_EQ(ChoosePair(request, one, one).prefill, std::nullopt);
  EXPECT_EQ(ChoosePair(request, one, one).reason, PairingReason::kResume);
}

TEST(Pairing, WorkersWhosePoolIsTooSmallAreNoCandidates) {
  std::vector<PairingCandidate> prefill(1), decode(2);
  const PairingRequest request = LongPrompt();
  decode[0].pool_blocks = static_cast<uint32_t>(BlocksNeeded(request)) - 1;
  decode[1].pool_blocks = static_cast<uint32_t>(BlocksNeeded(request));
  EXPECT_EQ(ChoosePair(request, prefill, decode).decode, 1u);
  decode.pop_back();
  EXPECT_EQ(ChoosePair(request, prefill, decode).decode, std::nullopt);
  EXPECT_EQ(ChoosePair(request, prefill, decode).reason, PairingReason::kPoolTooSmall);
  decode[0].pool_blocks = UINT32_MAX;
  prefill[0].pool_blocks = (request.prompt_tokens - 1) / request.block_size;
  EXPECT_EQ(ChoosePair(request, prefill, decode).reason, PairingReason::kNoPrefillWorker);
}

TEST(Pairing, APromptThatNoLeaseCanHoldIsReadByTheDecodeWorker) {
  std::vector<PairingCandidate> prefill(1), decode(1);
  PairingRequest request = LongPrompt();
  request.policy = DisaggregationPolicy::kAlways;
  const uint32_t prompt_blocks = (request.prompt_tokens + request.block_size - 1) / request.block_size;
  decode[0].max_lease_blocks = prompt_blocks + request.choices;
  EXPECT_EQ(ChoosePair(request, prefill, decode).prefill, 0u);
  ++request.choices;
  EXPECT_EQ(ChoosePair(request, prefill, decode).prefill, std::nullopt);
  EXPECT_EQ(ChoosePair(request, prefill, decode).decode, 0u);
  EXPECT_EQ(ChoosePair(request, prefill, decode).reason, PairingReason::kLeaseTooLarge);
}

}  // namespace
}  // namespace baton
