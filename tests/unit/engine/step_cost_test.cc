#include "common/engine/step_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace baton {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// What the "machine" takes: 20 ms a step, 1 ms a decode, 4 ms a prompt token, 10 us for 1,000 positions read.
Duration Truth(const StepShape& shape, double slower = 1) {
  const double us = 20000.0 + 1000.0 * shape.decodes + 4000.0 * shape.prompt_tokens +
                    10.0 * static_cast<double>(shape.attended) / 1000;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::micro>(us * slower));
}

StepShape Shape(uint32_t decodes, uint32_t prompt_tokens, uint32_t position = 100) {
  StepShape shape;
  for (uint32_t i = 0; i < decodes; ++i) shape.AddRun(position, position + 1, true);
  if (prompt_tokens > 0) shape.AddRun(position, position + prompt_tokens, false);
  return shape;
}

void Learn(StepCost* cost, uint32_t steps, double slower = 1, uint32_t seed = 1) {
  std::mt19937 random(seed);
  for (uint32_t i = 0; i < steps; ++i) {
    const StepShape shape = Shape(random() % 16, random() % 2 == 0 ? 0 : 1 + random() % 64, random() % 2000);
    cost->Observe(shape, Truth(shape, slower));
  }
}

void ExpectNear(Duration actual, Duration expected, double relative) {
  EXPECT_NEAR(Seconds(actual), Seconds(expected), relative * Seconds(expected));
}

TEST(StepCost, AttendedPositionsAreThoseOfACausalMask) {
  StepShape shape;
  shape.AddRun(10, 13, false);  // reads 11, 12 and 13
  EXPECT_EQ(shape.attended, 36u);
  EXPECT_EQ(shape.prompt_tokens, 3u);
  shape.AddRun(4, 5, true);
  EXPECT_EQ(shape.attended, 41u);
  EXPECT_EQ(shape.decodes, 1u);
}

TEST(StepCost, LearnsALinearMachine) {
  StepCost cost;
  EXPECT_EQ(cost.Predict(Shape(1, 1)), Duration::zero());
  Learn(&cost, 200);
  for (const StepShape& shape : {Shape(1, 0), Shape(15, 0), Shape(4, 40), Shape(0, 64, 1000)}) {
    ExpectNear(cost.Predict(shape), Truth(shape), 0.05);
  }
}

TEST(StepCost, AStalledStepChangesLittle) {
  StepCost cost;
  Learn(&cost, 200);
  cost.Observe(Shape(4, 20), 50 * Truth(Shape(4, 20)));
  ExpectNear(cost.Predict(Shape(4, 20)), Truth(Shape(4, 20)), 0.1);
}

TEST(StepCost, FollowsAMachineThatBecameSlower) {
  StepCost cost;
  Learn(&cost, 200);
  Learn(&cost, 200, 3);
  ExpectNear(cost.Predict(Shape(4, 20)), Truth(Shape(4, 20), 3), 0.1);
}

TEST(StepCost, ALongTimeOfDecodingDoesNotForgetWhatPromptsCost) {
  StepCost cost;
  Learn(&cost, 200);
  for (int i = 0; i < 5000; ++i) cost.Observe(Shape(8, 0), Truth(Shape(8, 0)));
  ExpectNear(cost.Predict(Shape(8, 30)), Truth(Shape(8, 30)), 0.1);
}

TEST(StepCost, TheChunkFillsTheTargetAndNoMore) {
  StepCost cost;
  Learn(&cost, 200);
  const uint32_t tokens = cost.PromptTokensWithin(milliseconds(200), Shape(8, 0), 500, 256);
  EXPECT_LE(Truth(Shape(8, tokens, 500)), milliseconds(200));
  EXPECT_GE(tokens, 35u);  // of 43 that would fit exactly: the margin
  EXPECT_EQ(cost.PromptTokensWithin(milliseconds(200), Shape(8, 0), 500, 10), 10u);
  EXPECT_EQ(cost.PromptTokensWithin(milliseconds(20), Shape(8, 0), 500, 256), 0u);
}

TEST(StepCost, PromptsNeverSeenStartSmallAndGrowByTwo) {
  StepCost cost;
  for (int i = 0; i < 20; ++i) cost.Observe(Shape(2, 0), Truth(Shape(2, 0)));
  uint32_t last = 0;
  for (const uint32_t expected : {16u, 32u, 64u}) {
    last = cost.PromptTokensWithin(std::chrono::seconds(10), Shape(2, 0), 0, 512);
    EXPECT_EQ(last, expected);
    cost.Observe(Shape(2, last), Truth(Shape(2, last)));
  }
}

TEST(StepCost, TheMarginGrowsWithTheNoiseAndShrinksWithoutIt) {
  StepCost quiet, noisy;
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const StepShape shape = Shape(8, random() % 2 * 32);
    quiet.Observe(shape, Truth(shape));
    noisy.Observe(shape, Truth(shape, 1 + 0.5 * (random() % 10 == 0)));
  }
  EXPECT_LT(quiet.margin(), 1.1);
  EXPECT_GT(noisy.margin(), 1.2);
}

TEST(StepCost, SwapIsCheaperUntilItsBytesAreNot) {
  StepCost cost;
  EXPECT_TRUE(cost.SwapIsCheaper(4, 64));
  Learn(&cost, 200);
  EXPECT_TRUE(cost.SwapIsCheaper(4, 64));
  cost.ObserveSwap(10, milliseconds(10));  // 8 ms for four blocks there and back against 256 ms
  EXPECT_TRUE(cost.SwapIsCheaper(4, 64));
  for (int i = 0; i < 20; ++i) cost.ObserveSwap(10, milliseconds(500));
  EXPECT_FALSE(cost.SwapIsCheaper(4, 64));
}

TEST(StepCost, ClocksThatStandStillTeachNothing) {
  StepCost cost;
  cost.Observe(Shape(2, 2), Duration::zero());
  EXPECT_EQ(cost.Predict(Shape(2, 2)), Duration::zero());
  EXPECT_EQ(cost.PromptTokensWithin(milliseconds(1), Shape(2, 0), 0, 512), 16u);
}

}  // namespace
}  // namespace baton
