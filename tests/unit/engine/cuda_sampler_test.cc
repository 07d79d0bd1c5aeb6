// Tokens drawn on the device are those that the CPU draws from the same logits, in an engine and choice by choice.

#include "common/engine/cuda_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "common/engine/inbox.h"
#include "common/engine/step_loop.h"
#include "common/kv/block_pool.h"
#include "tests/fakes/engine_harness.h"
#include "tests/fakes/random_model.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/kernels/random_floats.h"
#include "tests/unit/engine/cuda_harness.h"

namespace baton {
namespace {

using CudaSamplerTest = CudaTest;

// Every parameter in some choice, and some combinations.
SamplingParams ParamsOfKind(uint32_t kind, uint64_t seed) {
  SamplingParams params{.max_tokens = 12, .temperature = kind % 4 == 0 ? 0.0f : 1.1f, .seed = seed};
  if (kind % 3 == 1) params.top_p = 0.85f;
  if (kind % 5 == 2) params.top_k = 9;
  if (kind % 7 == 3) params.min_p = 0.05f;
  if (kind % 2 == 1) params.repetition_penalty = kind % 4 == 1 ? 1.4f : 0.8f;
  if (kind % 3 == 0) params.presence_penalty = 0.6f;
  if (kind % 5 < 2) params.frequency_penalty = -0.3f;
  if (kind % 3 == 2) params.logit_bias = {{5, 1.5f}, {11, -100.0f}, {200, 2.0f}};
  if (kind % 4 >= 2) params.stop_token_ids = {5, 17, 200, 230};
  if (kind % 8 >= 6) params.min_tokens = 6;
  if (kind % 2 == 0) params.logprobs = kind % 6;
  return params;
}

// A CUDA runner whose every token is compared with what a sampler of the CPU makes of the logits it came from.
class ComparedRunner final : public Runner {
 public:
  explicit ComparedRunner(Runner* runner) : runner_(runner) {}

  // What the choices of `seed` begin with.
  void Expect(uint64_t seed, std::vector<TokenId> prompt, std::map<uint32_t, std::vector<TokenId>> generated = {}) {
    starts_[seed] = {std::move(prompt), std::move(generated)};
  }

  absl::Status Step(std::span<const StepSequence> batch, std::span<std::span<float>>) override {
    std::vector<StepSequence> with_logits(batch.begin(), batch.end());
    for (StepSequence& sequence : with_logits) {
      sequence.wants_logits = !sequence.samples.empty();
      for (const StepSample& sample : sequence.samples) ReferenceFor(*sample.sampler);
    }
    std::vector<std::span<float>> logits(batch.size());
    const absl::Status status = runner_->Step(with_logits, logits);
    for (size_t i = 0; i < batch.size() && status.ok(); ++i) {
      for (const StepSample& sample : batch[i].samples) {
        EXPECT_EQ(sample.token, ReferenceFor(*sample.sampler).Sample(logits[i]))
            << sample.sampler->params().seed << " " << sample.sampler->choice_index();
        EXPECT_EQ(sample.sampler->generated(), ReferenceFor(*sample.sampler).generated());
        ++compared;
      }
    }
    return status;
  }
  void CopyBlock(BlockId from, BlockId to) override { runner_->CopyBlock(from, to); }
  uint32_t swap_slots() const override { return runner_->swap_slots(); }
  void SwapOut(BlockId from, uint32_t slot) override { runner_->SwapOut(from, slot); }
  void SwapIn(uint32_t slot, BlockId to) override { runner_->SwapIn(slot, to); }
  uint32_t vocab_size() const override { return runner_->vocab_size(); }
  uint32_t max_step_tokens() const override { return runner_->max_step_tokens(); }
  uint32_t max_batch() const override { return runner_->max_batch(); }
  NumericsHash numerics_hash() const override { return runner_->numerics_hash(); }
  StepWork last_work() const override { return runner_->last_work(); }

  int compared = 0;

 private:
  struct Start {
    std::vector<TokenId> prompt;
    std::map<uint32_t, std::vector<TokenId>> generated;
  };
  Sampler& ReferenceFor(const Sampler& sampler) {
    Start& start = starts_.at(sampler.params().seed);
    return references_
        .try_emplace({sampler.params().seed, sampler.choice_index()}, sampler.params(), sampler.choice_index(),
                     vocab_size(), start.prompt, start.generated[sampler.choice_index()])
        .first->second;
  }

  Runner* const runner_;
  std::map<uint64_t, Start> starts_;
  std::map<std::pair<uint64_t, uint32_t>, Sampler> references_;
};

TEST_F(CudaSamplerTest, AnEnginesTokensAreTheCpuSamplersWhateverIsAsked) {
  model::ModelConfig config = fakes::TinyConfig();
  config.head_dim = 64;
  const auto model = fakes::MakeRandomModel(config, 1);
  constexpr uint32_t kBlocks = 12, kBatch = 6;
  CudaHarness cuda(*model, DType::kBF16, device_stream(), {.max_step_tokens = 64, .max_batch = kBatch}, kBlocks);
  ComparedRunner runner(&cuda.runner());
  BlockPool pool(kBlocks);
  FakeClock clock;
  Inbox inbox(64);
  // Fewer blocks than the requests take, so that some are preempted, and fewer slots than choices, so that histories
  // make room for others and come back.
  SchedulerOptions options{.max_batch = kBatch, .max_step_tokens = 64, .step_limit = 64, .chunk_tokens = 32};
  StepLoop loop(options, &runner, &pool, &clock, &inbox, nullptr);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t kind = 0; kind < 16; ++kind) {
    const uint32_t choices = kind % 6 == 5 ? 8 : 1 + kind % 2;
    EngineRequest request = MakeRequest(kind, MakePrompt(5 + 7 * (kind % 5), kind, config.vocab), 12, nullptr, choices);
    request.sampling = ParamsOfKind(kind, 1000 + kind);
    std::map<uint32_t, uint32_t> first;
    std::map<uint32_t, std::vector<TokenId>> generated;
    if (kind % 4 == 1) {
      for (ChoiceStart& choice : request.choices) {
        choice.generated = {static_cast<TokenId>(3 + choice.index), 7, 7};
        generated[choice.index] = choice.generated;
        first[choice.index] = 3;
      }
    }
    if (kind == 3) request.work = WorkKind::kPrefill;
    sinks.push_back(std::make_shared<RecordingSink>(first));
    request.sink = sinks.back();
    runner.Expect(request.sampling.seed, request.prompt, generated);
    ASSERT_TRUE(inbox.Submit(std::move(request), clock.Now()).ok());
  }
  for (int step = 0; step < 2000 && loop.HasWork() + (step == 0) > 0; ++step) {
    loop.Apply(inbox.Take(absl::ZeroDuration()));
    clock.Advance(std::chrono::milliseconds(1));
    loop.Step();
  }
  for (size_t kind = 0; kind < sinks.size(); ++kind) {
    EXPECT_TRUE(sinks[kind]->ended() && sinks[kind]->status().ok()) << kind;
    EXPECT_EQ(sinks[kind]->broken_contract(), "") << kind;
  }
  EXPECT_GT(runner.compared, 150);
  EXPECT_GT(loop.load().preemptions, 0u);
}

// Choices over made-up logits, each beside a sampler of the CPU that is told the same.
class Choices {
 public:
  Choices(CudaSampler* sampler, uint32_t vocab, const device::Stream& stream)
      : sampler_(sampler), vocab_(vocab), stream_(stream) {
    auto memory = device::Memory::Allocate(device::MemoryKind::kDevice, uint64_t{kRows} * vocab * sizeof(float));
    EXPECT_TRUE(memory.ok());
    logits_ = *std::move(memory);
  }

  void Add(const SamplingParams& params, const std::vector<TokenId>& prompt) {
    on_device_.push_back(std::make_unique<Sampler>(params, on_device_.size(), vocab_, prompt, kNone));
    on_cpu_.push_back(std::make_unique<Sampler>(params, on_cpu_.size(), vocab_, prompt, kNone));
  }
  void Drop(size_t choice) {
    on_device_[choice].reset();
    on_cpu_[choice].reset();
  }

  // A step with a row for each of `rows`, whose choices share it.
  std::vector<SampledToken> Step(const std::vector<std::vector<size_t>>& rows, std::vector<float> logits = {}) {
    BATON_CHECK(rows.size() <= kRows);
    if (logits.empty()) logits = RandomFloats(rows.size() * vocab_, ++step_, 5.0f);
    EXPECT_TRUE(stream_.Copy(logits_.data(), logits.data(), logits.size() * sizeof(float)).ok());
    std::vector<std::vector<StepSample>> samples;
    std::vector<StepSequence> batch(1);  // the first needs no logits
    for (const std::vector<size_t>& choices : rows) {
      samples.emplace_back();
      for (const size_t choice : choices) samples.back().push_back({.sampler = on_device_[choice].get()});
    }
    for (auto& row : samples) batch.push_back({.samples = row});
    absl::Status status =
        sampler_->Enqueue(batch, logits_.as<float>(), stream_, [this] { return stream_.Synchronize(); });
    EXPECT_TRUE(status.ok()) << StatusMessage(status);
    status = stream_.Synchronize();
    EXPECT_TRUE(status.ok()) << StatusMessage(status);
    sampler_->Finish();
    std::vector<SampledToken> tokens;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (size_t i = 0; i < rows[row].size(); ++i) {
        tokens.push_back(samples[row][i].token);
        EXPECT_EQ(tokens.back(), on_cpu_[rows[row][i]]->Sample(std::span(logits).subspan(row * vocab_, vocab_)))
            << "choice " << rows[row][i] << " in step " << step_;
      }
    }
    return tokens;
  }

 private:
  static constexpr uint32_t kRows = 8;
  static inline const std::vector<TokenId> kNone;
  CudaSampler* const sampler_;
  const uint32_t vocab_;
  const device::Stream& stream_;
  device::Memory logits_;
  std::vector<std::unique_ptr<Sampler>> on_device_, on_cpu_;
  uint32_t step_ = 0;
};

std::unique_ptr<CudaSampler> NewSampler(uint32_t vocab, uint32_t at_once) {
  auto sampler = CudaSampler::Create(vocab, at_once);
  EXPECT_TRUE(sampler.ok()) << StatusMessage(sampler.status());
  return *std::move(sampler);
}

SamplingParams Penalizing(uint64_t seed) {
  return {.max_tokens = 1000, .temperature = 0.9f, .repetition_penalty = 1.5f, .frequency_penalty = 0.7f, .seed = seed};
}

TEST_F(CudaSamplerTest, HistoriesMakeRoomForOthersAndComeBack) {
  const auto sampler = NewSampler(300, 3);
  Choices choices(sampler.get(), 300, device_stream());
  for (uint32_t i = 0; i < 7; ++i) choices.Add(Penalizing(i), MakePrompt(40, i, 300));
  for (const size_t first : {0, 1, 2, 5, 3, 0, 4, 4, 6, 1}) {
    choices.Step({{first}, {(first + 3) % 7}, {(first + 5) % 7}});
  }
}

TEST_F(CudaSamplerTest, MoreChoicesThanALaunchTakesShareRows) {
  const auto sampler = NewSampler(250, 2);
  Choices choices(sampler.get(), 250, device_stream());
  for (uint32_t i = 0; i < 9; ++i) choices.Add(i % 2 == 0 ? Penalizing(i) : ParamsOfKind(i, i), MakePrompt(9, i, 250));
  for (int step = 0; step < 5; ++step) choices.Step({{0, 1, 2, 3, 4}, {5}, {6, 7, 8}});
}

// Addresses of samplers that are gone come again.
TEST_F(CudaSamplerTest, AChoiceNeverSeesTheHistoryOfOneThatIsGone) {
  const auto sampler = NewSampler(200, 2);
  Choices choices(sampler.get(), 200, device_stream());
  for (size_t i = 0; i < 30; ++i) {
    choices.Add(Penalizing(i), MakePrompt(30, static_cast<uint32_t>(i), 200));
    choices.Step({{i}});
    choices.Step({{i}});
    choices.Drop(i);
  }
}

TEST_F(CudaSamplerTest, HistoriesOfMoreTokensThanAreSentAtOnceAreWaitedFor) {
  constexpr uint32_t kVocab = 40000;  // two of them are above what is sent at once
  std::vector<TokenId> everything(kVocab);
  for (uint32_t id = 0; id < kVocab; ++id) everything[id] = static_cast<TokenId>(id);
  const auto sampler = NewSampler(kVocab, 4);
  Choices choices(sampler.get(), kVocab, device_stream());
  for (uint32_t i = 0; i < 4; ++i) choices.Add(Penalizing(i), everything);
  for (int step = 0; step < 2; ++step) choices.Step({{0}, {1}, {2, 3}});
}

TEST_F(CudaSamplerTest, ARowWithoutAPossibleTokenIsAnErrorOfItsChoiceAlone) {
  const auto sampler = NewSampler(100, 4);
  Choices choices(sampler.get(), 100, device_stream());
  for (uint32_t i = 0; i < 3; ++i) choices.Add(Penalizing(i), MakePrompt(5, i, 100));
  std::vector<float> logits = RandomFloats(300, 1, 3.0f);
  std::fill_n(logits.begin() + 100, 100, std::numeric_limits<float>::quiet_NaN());
  const std::vector<SampledToken> tokens = choices.Step({{0}, {1}, {2}}, logits);
  EXPECT_EQ(tokens[0].finish, FinishReason::kNone);
  EXPECT_EQ(tokens[1].finish, FinishReason::kError);
  EXPECT_EQ(tokens[2].finish, FinishReason::kNone);
  choices.Step({{2}, {1}, {0}});  // and it left nothing behind
}

}  // namespace
}  // namespace baton
