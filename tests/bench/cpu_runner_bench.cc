// Prefill and decode rate of the CPU runner on the shape of Qwen2.5-0.5B with random weights.
//   cpu_runner_bench [--threads N] [--prompt 512] [--tokens 64] [--batch 1]
//     [--weights auto|f32|bf16|f16|int8|int4] [--model PATH]

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "tests/bench/simd_target.h"
#include "tests/fakes/random_model.h"

namespace baton {
namespace {

struct BenchOptions {
  int threads = 0;
  uint32_t prompt = 512, tokens = 64, batch = 1, repetitions = 3;
  WeightsFormat weights = WeightsFormat::kAuto;
  std::string model;
};

double SecondsOf(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

absl::Status Bench(const BenchOptions& options) {
  std::shared_ptr<const CpuWeights> weights;
  {
    std::shared_ptr<const model::Model> model;
    if (options.model.empty()) {
      model = fakes::MakeRandomModel(fakes::Qwen25Config(), 1, DType::kBF16);
    } else {
      BATON_ASSIGN_OR_RETURN(model, model::LoadModel(options.model));
    }
    absl::Status status;
    const double seconds = SecondsOf([&] {
      auto packed = PackCpuWeights(*model, options.weights, options.threads);
      if (packed.ok()) weights = *packed;
      status = packed.status();
    });
    BATON_RETURN_IF_ERROR(status);
    std::printf("packed %.0f MB in %.2f s\n", 1e-6 * static_cast<double>(weights->matrix_bytes), seconds);
  }
  const KvLayout layout = MakeKvLayout(weights->config, DType::kBF16);
  const uint32_t blocks_each = layout.BlocksFor(options.prompt + options.tokens * (options.repetitions + 1));
  AlignedBuffer pool(blocks_each * options.batch * layout.BytesPerBlock());
  std::memset(pool.data(), 0, pool.size());
  BATON_ASSIGN_OR_RETURN(auto runner, CpuRunner::Create(weights, layout, {pool.data(), pool.size()},
                                                        {.threads = options.threads,
                                                         .max_step_tokens = std::max(options.prompt, options.batch)}));
  std::vector<TokenId> prompt(options.prompt);
  for (uint32_t i = 0; i < options.prompt; ++i) prompt[i] = static_cast<TokenId>((i * 7919) % runner->vocab_size());
  std::vector<std::vector<BlockId>> blocks(options.batch);
  for (uint32_t i = 0; i < options.batch * blocks_each; ++i) blocks[i / blocks_each].push_back(i);
  std::vector<std::span<float>> logits(options.batch);
  absl::Status status;
  double best_prefill = 1e9;
  for (uint32_t i = 0; i < std::max(options.batch, options.repetitions); ++i) {
    const StepSequence sequence{prompt, 0, blocks[i % options.batch], true};
    best_prefill = std::min(best_prefill, SecondsOf([&] { status.Update(runner->Step({&sequence, 1}, logits)); }));
  }
  const Runner::StepWork prefill_work = runner->last_work();
  double best_decode = 1e9;
  uint32_t position = options.prompt;
  for (uint32_t i = 0; i < options.repetitions; ++i) {
    const double seconds = SecondsOf([&] {
      for (uint32_t k = 0; k < options.tokens; ++k, ++position) {
        const TokenId token = static_cast<TokenId>(position % runner->vocab_size());
        std::vector<StepSequence> batch;
        for (const auto& table : blocks) batch.push_back({{&token, 1}, position, table, true});
        status.Update(runner->Step(batch, logits));
      }
    });
    best_decode = std::min(best_decode, seconds / options.tokens);
  }
  BATON_RETURN_IF_ERROR(status);
  std::printf("prefill of %u: %.1f tokens/s (%.0f GFLOP/s)\n", options.prompt, options.prompt / best_prefill,
              1e-9 * static_cast<double>(prefill_work.flops) / best_prefill);
  std::printf("decode of %u: %.2f tokens/s (%.1f GB/s)\n", options.batch, options.batch / best_decode,
              1e-9 * static_cast<double>(runner->last_work().bytes) / best_decode);
  return absl::OkStatus();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::KeepToSimdTargetOfEnvironment();
  baton::BenchOptions options;
  std::map<std::string, baton::WeightsFormat> formats;
  for (const baton::WeightsFormat format : baton::kWeightsFormats) {
    formats[std::string(baton::WeightsFormatName(format))] = format;
  }
  CLI::App app("CPU runner benchmark");
  app.add_option("--threads", options.threads);
  app.add_option("--prompt", options.prompt)->check(CLI::PositiveNumber);
  app.add_option("--tokens", options.tokens)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch)->check(CLI::PositiveNumber);
  app.add_option("--repetitions", options.repetitions)->check(CLI::PositiveNumber);
  app.add_option("--weights", options.weights)->transform(CLI::CheckedTransformer(formats));
  app.add_option("--model", options.model, "checkpoint; default: random weights");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = baton::Bench(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", baton::StatusMessage(status).c_str());
  return status.ok() ? 0 : 1;
}
