// What the scheduler takes of a step, with a thousand requests waiting: planning, taking results and counting against
// the model's time for the same batch.
//   scheduler_bench [--shape smollm2-135m] [--waiting 1000] [--threads N]

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "common/engine/scheduler.h"
#include "common/model/shapes.h"
#include "tests/bench/simd_target.h"
#include "tests/fakes/random_model.h"

namespace baton {
namespace {

constexpr uint32_t kPrompt = 32, kSteps = 11;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Shares {
  double scheduler = 0, model = 0;  // median seconds a step
};

Shares Measure(Runner* runner, BlockPool* pool, uint32_t batch, uint32_t waiting) {
  SchedulerOptions options;
  options.max_batch = batch;
  options.max_itl = std::chrono::milliseconds(250);
  options.priority_aging = std::chrono::seconds(5);
  Scheduler scheduler(options, pool);
  std::vector<std::unique_ptr<ActiveRequest>> requests(batch + waiting);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = std::make_unique<ActiveRequest>();
    EngineRequest& spec = requests[i]->spec;
    for (uint32_t k = 0; k < kPrompt; ++k) {
      spec.prompt.push_back(static_cast<TokenId>((i * 131 + k * 7919) % runner->vocab_size()));
    }
    spec.choices = {ChoiceStart{}};
    scheduler.Add(requests[i].get());
  }
  std::vector<double> scheduler_seconds, model_seconds;
  std::vector<StepSequence> sequences;
  std::vector<std::span<float>> logits;
  while (model_seconds.size() < kSteps) {
    auto begin = std::chrono::steady_clock::now();
    const StepPlan& plan = scheduler.Schedule(begin);
    const StepShape shape = plan.shape;
    double in_scheduler = SecondsSince(begin);
    sequences.clear();
    for (const ScheduledRun& run : plan.runs) {
      sequences.push_back({std::span(run.sequence->tokens).subspan(run.begin, run.end - run.begin), run.begin,
                           run.sequence->table.blocks(), run.wants_logits});
    }
    logits.assign(sequences.size(), {});
    begin = std::chrono::steady_clock::now();
    BATON_CHECK(runner->Step(sequences, logits).ok());
    const double in_model = SecondsSince(begin);
    begin = std::chrono::steady_clock::now();
    for (const ScheduledRun& run : plan.runs) {
      scheduler.Advance(run);
      if (!run.wants_logits) continue;
      scheduler.PublishFull(run.sequence);
      scheduler.Append(run.sequence, static_cast<TokenId>(run.end % runner->vocab_size()));
    }
    scheduler.cost().Observe(shape, std::chrono::duration_cast<Duration>(std::chrono::duration<double>(in_model)));
    BATON_CHECK(scheduler.counts().waiting_requests >= waiting);
    in_scheduler += SecondsSince(begin);
    if (shape.decodes < batch) continue;  // prompts are still read
    scheduler_seconds.push_back(in_scheduler);
    model_seconds.push_back(in_model);
  }
  for (const auto& request : requests) scheduler.Remove(request.get());
  pool->DropCache();
  const auto median = [](std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
  };
  return {median(scheduler_seconds), median(model_seconds)};
}

absl::Status Bench(const std::string& shape, uint32_t waiting, int threads) {
  BATON_ASSIGN_OR_RETURN(const model::ModelConfig config, model::FindShape(shape));
  std::shared_ptr<const CpuWeights> weights;
  {
    BATON_ASSIGN_OR_RETURN(weights, PackCpuWeights(*fakes::MakeRandomModel(config, 1), WeightsFormat::kAuto, threads));
  }
  const KvLayout layout = MakeKvLayout(weights->config, DType::kBF16);
  const uint32_t blocks = 64 * layout.BlocksFor(kPrompt + 2 * kSteps) + 64;
  AlignedBuffer memory(blocks * layout.BytesPerBlock());
  std::memset(memory.data(), 0, memory.size());
  BATON_ASSIGN_OR_RETURN(auto runner, CpuRunner::Create(weights, layout, {memory.data(), memory.size()},
                                                        {.threads = threads, .max_step_tokens = 512}));
  std::printf("%s, %u waiting\nbatch   scheduler us   model ms   share\n", shape.c_str(), waiting);
  for (const uint32_t batch : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
    BlockPool pool(blocks);
    const Shares shares = Measure(runner.get(), &pool, batch, waiting);
    std::printf("%5u %14.1f %10.2f %6.3f%%\n", batch, 1e6 * shares.scheduler, 1e3 * shares.model,
                100 * shares.scheduler / (shares.scheduler + shares.model));
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  CLI::App app("The scheduler's share of a step.");
  std::string shape = "smollm2-135m";
  uint32_t waiting = 1000;
  int threads = 0;
  app.add_option("--shape", shape, "Published shape, with random weights");
  app.add_option("--waiting", waiting, "Requests that wait");
  app.add_option("--threads", threads, "0: one per core");
  CLI11_PARSE(app, argc, argv);
  baton::KeepToSimdTargetOfEnvironment();
  const absl::Status status = baton::Bench(shape, waiting, threads);
  if (!status.ok()) std::fprintf(stderr, "%s\n", baton::StatusMessage(status).c_str());
  return status.ok() ? 0 : 1;
}
