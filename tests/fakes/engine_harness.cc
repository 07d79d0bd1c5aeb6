#include "tests/fakes/engine_harness.h"

#include <utility>

#include "common/base/status.h"

namespace baton {

EngineHarness::EngineHarness(const HarnessOptions& options)
    : pool(options.blocks),
      runner({options.blocks, options.scheduler.block_size, options.vocab_size, options.scheduler.step_limit,
              options.scheduler.max_batch, options.scheduler.swap_slots}),
      inbox(4096),
      loop(options.scheduler, &runner, &pool, &clock, &inbox,
           [this](const StepReport& report) { reports.push_back(report); }),
      limits_{options.scheduler.block_size, options.blocks, options.vocab_size, 0} {
  runner.clock = &clock;
}

absl::Status EngineHarness::Submit(EngineRequest request) {
  BATON_RETURN_IF_ERROR(CheckRequest(request, limits_));
  return inbox.Submit(std::move(request), clock.Now());
}

bool EngineHarness::Step() {
  loop.Apply(inbox.Take(absl::ZeroDuration()));
  clock.Advance(std::chrono::milliseconds(1));
  return loop.Step();
}

bool EngineHarness::RunUntilIdle(uint32_t limit) {
  for (uint32_t step = 0; step < limit; ++step) {
    if (!Step()) return true;
  }
  return false;
}

std::vector<TokenId> MakePrompt(uint32_t size, uint32_t seed, uint32_t vocab_size) {
  std::vector<TokenId> prompt(size);
  for (uint32_t i = 0; i < size; ++i) prompt[i] = static_cast<TokenId>((seed * 31 + i * 7 + i * i * seed) % vocab_size);
  return prompt;
}

EngineRequest MakeRequest(uint64_t id, std::vector<TokenId> prompt, uint32_t max_tokens,
                          std::shared_ptr<EngineSink> sink, uint32_t choices) {
  EngineRequest request;
  request.id = id;
  request.prompt = std::move(prompt);
  for (uint32_t index = 0; index < choices; ++index) request.choices.push_back({index, {}});
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0.9f;
  request.sampling.repetition_penalty = 1.2f;
  request.sampling.seed = id * 1000 + 1;
  request.sink = std::move(sink);
  return request;
}

}  // namespace baton
