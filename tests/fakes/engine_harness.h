#pragma once

// A worker's engine over the fake model, driven step by step on the test's own thread.

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/engine/admission.h"
#include "common/engine/inbox.h"
#include "common/engine/scheduler.h"
#include "common/engine/step_loop.h"
#include "common/kv/block_pool.h"
#include "tests/fakes/fake_runner.h"
#include "tests/fakes/recording_sink.h"

namespace baton {

struct HarnessOptions {
  uint32_t blocks = 64;
  uint32_t vocab_size = 97;
  SchedulerOptions scheduler;
};

class EngineHarness {
 public:
  explicit EngineHarness(const HarnessOptions& options = {});

  absl::Status Submit(EngineRequest request);
  void Cancel(uint64_t id) { inbox.Cancel(id); }
  void CancelChoice(uint64_t id, uint32_t choice) { inbox.CancelChoice(id, choice); }
  void Release(uint64_t id) { inbox.Release(id); }
  // Takes in what came and runs a step; false when nothing could run.
  bool Step();
  // Steps until nothing can run; false after `limit` steps.
  bool RunUntilIdle(uint32_t limit = 100000);

  BlockPool pool;
  FakeRunner runner;
  FakeClock clock;
  Inbox inbox;
  std::vector<StepReport> reports;
  StepLoop loop;

 private:
  const AdmissionLimits limits_;
};

// Prompt of `size` tokens that depends on `seed`.
std::vector<TokenId> MakePrompt(uint32_t size, uint32_t seed, uint32_t vocab_size = 97);

// A request with one choice per index; sampled, so that a mistake anywhere shows.
EngineRequest MakeRequest(uint64_t id, std::vector<TokenId> prompt, uint32_t max_tokens,
                          std::shared_ptr<EngineSink> sink, uint32_t choices = 1);

}  // namespace baton
