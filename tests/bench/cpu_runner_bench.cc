// Prefill and decode rate of the CPU runner on the shape of Qwen2.5-0.5B with random weights, beside what the machine
// reads and multiplies in the same run.
//   cpu_runner_bench [--threads N] [--prompts 64,256,512,1024] [--batches 1,8,16] [--depths 0,1024]
//                    [--weights auto|f32|bf16|f16|int8|int4] [--kv_dtype bf16] [--steal] [--model PATH]

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "common/engine/engine_peak.h"
#include "tests/bench/simd_target.h"
#include "tests/fakes/random_model.h"

namespace baton {
namespace {

struct BenchOptions {
  int threads = 0;
  std::vector<uint32_t> prompts = {64, 256, 512, 1024}, batches = {1, 8, 16}, depths = {0, 1024};
  uint32_t tokens = 16, repetitions = 3;
  WeightsFormat weights = WeightsFormat::kAuto;
  DType kv_dtype = DType::kBF16;
  bool steal = false;
  std::string model;
};

double SecondsOf(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

absl::StatusOr<std::shared_ptr<const CpuWeights>> Weights(const BenchOptions& options) {
  std::shared_ptr<const model::Model> model;
  if (options.model.empty()) {
    model = fakes::MakeRandomModel(fakes::Qwen25Config(), 1, DType::kBF16);
  } else {
    BATON_ASSIGN_OR_RETURN(model, model::LoadModel(options.model));
  }
  absl::StatusOr<std::shared_ptr<const CpuWeights>> weights;
  const double seconds = SecondsOf([&] { weights = PackCpuWeights(*model, options.weights, options.threads); });
  if (weights.ok()) {
    std::printf("packed %.0f MB in %.2f s\n", 1e-6 * static_cast<double>((*weights)->matrix_bytes), seconds);
  }
  return weights;
}

// A runner and blocks for `sequences` of `length` positions each, all of which may be read.
class Bench {
 public:
  static absl::StatusOr<Bench> Create(std::shared_ptr<const CpuWeights> weights, const BenchOptions& options,
                                      uint32_t sequences, uint32_t length) {
    Bench bench;
    const KvLayout layout = MakeKvLayout(weights->config, options.kv_dtype);
    const uint32_t each = layout.BlocksFor(length);
    bench.pool_ = AlignedBuffer(uint64_t{each} * sequences * layout.BytesPerBlock());
    std::memset(bench.pool_.data(), 0, bench.pool_.size());
    BATON_ASSIGN_OR_RETURN(
        bench.runner_,
        CpuRunner::Create(std::move(weights), layout, {bench.pool_.data(), bench.pool_.size()},
                          {.threads = options.threads,
                           .max_step_tokens = std::max(
                               sequences, *std::max_element(options.prompts.begin(), options.prompts.end()))}));
    // Blocks of the sequences lie between each other's, as in a pool that has been used.
    bench.blocks_.resize(sequences);
    for (uint32_t i = 0; i < each * sequences; ++i) bench.blocks_[i % sequences].push_back(i);
    bench.logits_.resize(sequences);
    return bench;
  }

  // Seconds of one step that reads `tokens` of the first sequence.
  absl::StatusOr<double> Prefill(uint32_t tokens) {
    std::vector<TokenId> prompt(tokens);
    for (uint32_t i = 0; i < tokens; ++i) prompt[i] = static_cast<TokenId>((i * 7919) % runner_->vocab_size());
    const StepSequence sequence{prompt, 0, blocks_[0], true};
    return Run({&sequence, 1});
  }

  // Seconds of one step that takes a token of each of the first `count` sequences.
  absl::StatusOr<double> Decode(uint32_t count, uint32_t position) {
    const TokenId token = static_cast<TokenId>(position * 31 % runner_->vocab_size());
    std::vector<StepSequence> batch;
    for (uint32_t i = 0; i < count; ++i) batch.push_back({{&token, 1}, position, blocks_[i], true});
    return Run(batch);
  }

  const CpuRunner& runner() const { return *runner_; }

 private:
  absl::StatusOr<double> Run(std::span<const StepSequence> batch) {
    absl::Status status;
    const double seconds = SecondsOf([&] { status = runner_->Step(batch, logits_); });
    BATON_RETURN_IF_ERROR(status);
    return seconds;
  }

  AlignedBuffer pool_;
  std::unique_ptr<CpuRunner> runner_;
  std::vector<std::vector<BlockId>> blocks_;
  std::vector<std::span<float>> logits_;
};

absl::StatusOr<double> MedianOfDecodes(Bench& bench, const BenchOptions& options, uint32_t batch, uint32_t depth) {
  std::vector<double> seconds;
  for (uint32_t i = 0; i < options.tokens * options.repetitions; ++i) {
    BATON_ASSIGN_OR_RETURN(const double one, bench.Decode(batch, depth + i % options.tokens));
    seconds.push_back(one);
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

// Keeps the last core that this process may use busy, as another program would.
class BusyCore {
 public:
  BusyCore()
      : thread_([this] {
          cpu_set_t allowed, last;
          CPU_ZERO(&last);
          sched_getaffinity(0, sizeof(allowed), &allowed);
          for (int core = CPU_SETSIZE - 1; core >= 0 && CPU_COUNT(&last) == 0; --core) {
            if (CPU_ISSET(core, &allowed)) CPU_SET(core, &last);
          }
          pthread_setaffinity_np(pthread_self(), sizeof(last), &last);
          while (!stop_.load(std::memory_order_relaxed)) {
          }
        }) {}
  ~BusyCore() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

absl::Status Run(const BenchOptions& options) {
  BATON_ASSIGN_OR_RETURN(const auto weights, Weights(options));
  const EnginePeak peak = ProbeCpuPeak(*weights, options.threads, std::chrono::milliseconds(500));
  std::printf("machine: %.0f GFLOP/s in f32, reads weights at %.1f GB/s\n", 1e-9 * peak.flops_per_second,
              1e-9 * peak.bytes_per_second);
  const uint32_t deepest = std::max(*std::max_element(options.prompts.begin(), options.prompts.end()),
                                    *std::max_element(options.depths.begin(), options.depths.end()));
  BATON_ASSIGN_OR_RETURN(
      Bench bench, Bench::Create(weights, options, *std::max_element(options.batches.begin(), options.batches.end()),
                                 deepest + options.tokens));
  const auto report = [&](const std::string& what, uint32_t tokens, double seconds) {
    const Runner::StepWork work = bench.runner().last_work();
    const double flops = static_cast<double>(work.flops) / seconds, bytes = static_cast<double>(work.bytes) / seconds;
    std::printf("%-34s %8.1f tokens/s  %8.2f ms  %6.0f GFLOP/s (%3.0f%%)  %5.1f GB/s (%3.0f%%)\n", what.c_str(),
                tokens / seconds, 1e3 * seconds, 1e-9 * flops, 100 * flops / peak.flops_per_second, 1e-9 * bytes,
                100 * bytes / peak.bytes_per_second);
    std::fflush(stdout);
  };
  for (const uint32_t prompt : options.prompts) {
    double best = 1e9;
    for (uint32_t i = 0; i < options.repetitions; ++i) {
      BATON_ASSIGN_OR_RETURN(const double seconds, bench.Prefill(prompt));
      best = std::min(best, seconds);
    }
    report("prefill " + std::to_string(prompt), prompt, best);
  }
  for (const uint32_t depth : options.depths) {
    for (const uint32_t batch : options.batches) {
      BATON_ASSIGN_OR_RETURN(const double seconds, MedianOfDecodes(bench, options, batch, depth));
      const std::string what = "decode " + std::to_string(batch) + " at depth " + std::to_string(depth);
      report(what, batch, seconds);
      if (!options.steal) continue;
      const BusyCore busy;
      BATON_ASSIGN_OR_RETURN(const double stolen, MedianOfDecodes(bench, options, batch, depth));
      report(what + ", a core taken", batch, stolen);
      std::printf("%-34s %8.2f times slower\n", "", stolen / seconds);
    }
  }
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
  std::map<std::string, baton::DType> kv_formats;
  for (const baton::DType dtype : {baton::DType::kF32, baton::DType::kF16, baton::DType::kBF16, baton::DType::kI8}) {
    kv_formats[std::string(baton::DTypeName(dtype))] = dtype;
  }
  CLI::App app("CPU runner benchmark");
  app.add_option("--threads", options.threads);
  app.add_option("--prompts", options.prompts)->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--batches", options.batches)->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--depths", options.depths)->delimiter(',');
  app.add_option("--tokens", options.tokens, "steps of a repetition")->check(CLI::PositiveNumber);
  app.add_option("--repetitions", options.repetitions)->check(CLI::PositiveNumber);
  app.add_option("--weights", options.weights)->transform(CLI::CheckedTransformer(formats));
  app.add_option("--kv_dtype", options.kv_dtype)->transform(CLI::CheckedTransformer(kv_formats));
  app.add_flag("--steal", options.steal, "decode once more while another thread takes a core");
  app.add_option("--model", options.model, "checkpoint; default: random weights");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = baton::Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", baton::StatusMessage(status).c_str());
  return status.ok() ? 0 : 1;
}
