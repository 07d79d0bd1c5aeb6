// Steps of the engine: decode and prefill.

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/sampling/sampler.h"
#include "tests/gpu/attention_bench.h"
#include "tests/gpu/measures.h"

namespace baton {
namespace {

// A step whose sequences all get their next token, the likeliest, as a worker's do. Every round runs the same
// positions: what they hold is random anyway.
absl::StatusOr<double> StepSeconds(const BenchEngine& engine, CudaRunner& runner,
                                   const std::vector<std::vector<BlockId>>& tables, uint32_t position,
                                   uint32_t tokens) {
  std::vector<TokenId> ids(tokens);
  for (uint32_t i = 0; i < tokens; ++i) ids[i] = static_cast<TokenId>(i * 7919 % runner.vocab_size());
  SamplingParams greedy;
  greedy.temperature = 0;
  std::vector<Sampler> samplers;
  for (size_t i = 0; i < tables.size(); ++i)
    samplers.emplace_back(greedy, 0, runner.vocab_size(), ids, std::span<const TokenId>());
  std::vector<StepSample> samples(tables.size());
  std::vector<StepSequence> batch;
  for (size_t i = 0; i < tables.size(); ++i) {
    samples[i].sampler = &samplers[i];
    batch.push_back({.tokens = ids, .position = position, .blocks = tables[i], .samples = {&samples[i], 1}});
  }
  return SecondsOf(engine.stream(), engine.shape().rounds, [&] { return runner.Step(batch, {}); });
}

}  // namespace

absl::Status MeasureDecode(const BenchEngine& engine, Records& records) {
  const uint32_t context = engine.shape().context, layers = engine.weights().config.layers;
  for (const bool graphs : {true, false}) {
    BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CudaRunner> runner, engine.NewRunner(graphs, 1));
    for (const uint32_t batch : engine.shape().batches) {
      BATON_ASSIGN_OR_RETURN(const auto tables, engine.Tables(batch, context + 1));
      BATON_ASSIGN_OR_RETURN(const double seconds, StepSeconds(engine, *runner, tables, context, 1));
      nlohmann::ordered_json record = {{"measure", "decode"},
                                       {"model", engine.shape().model},
                                       {"graphs", graphs},
                                       {"batch", batch},
                                       {"context", context},
                                       {"seconds", seconds},
                                       {"bytes", runner->last_work().bytes}};
      if (graphs) {
        BATON_ASSIGN_OR_RETURN(const double attention, DecodeAttentionSeconds(engine, tables, context));
        record["attention_seconds"] = attention * layers;
      }
      BATON_RETURN_IF_ERROR(records.Write(record));
    }
  }
  return absl::OkStatus();
}

absl::Status MeasurePrefill(const BenchEngine& engine, Records& records) {
  if (engine.shape().lengths.empty()) return absl::OkStatus();
  const uint32_t longest = *std::max_element(engine.shape().lengths.begin(), engine.shape().lengths.end());
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CudaRunner> runner, engine.NewRunner(false, longest));
  for (const uint32_t length : engine.shape().lengths) {
    BATON_ASSIGN_OR_RETURN(const auto tables, engine.Tables(1, length));
    BATON_ASSIGN_OR_RETURN(const double seconds, StepSeconds(engine, *runner, tables, 0, length));
    nlohmann::ordered_json record = {{"measure", "prefill"},
                                     {"model", engine.shape().model},
                                     {"length", length},
                                     {"seconds", seconds},
                                     {"flops", runner->last_work().flops}};
    if (cuda::TakesPrefill(engine.Kv(0))) {
      BATON_ASSIGN_OR_RETURN(const double attention, PrefillAttentionSeconds(engine, tables[0], length));
      record["attention_seconds"] = attention * engine.weights().config.layers;
    }
    BATON_RETURN_IF_ERROR(records.Write(record));
  }
  return absl::OkStatus();
}

}  // namespace baton
