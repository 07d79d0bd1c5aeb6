// How fast the engine reads prompts and generates, by length, batch and weights format, beside what the machine can do.

#include <algorithm>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_runner.h"
#include "common/engine/engine_peak.h"
#include "common/model/model.h"
#include "kernels/peak.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/busy_core.h"
#include "services/cli/bench/engine_rig.h"
#include "services/cli/bench/statistics.h"
#include "services/cli/format.h"

namespace baton::cli {
namespace {

// Operations a second of all threads, in registers.
struct Ceilings {
  double fma = 0, int8 = 0;
};

// The best of several tries: neighbours take their share.
Ceilings MeasureCeilings(int threads) {
  ThreadPool pool(threads);
  const auto best = [&](const auto& rounds) {
    double most = 0;
    for (int attempt = 0; attempt < 15; ++attempt) {
      std::vector<double> done(static_cast<size_t>(pool.threads()));
      const double seconds = SecondsOf(
          [&] { pool.Run(pool.threads(), [&](int64_t task, int) { done[static_cast<size_t>(task)] = rounds(); }); });
      double all = 0;
      for (const double part : done) all += part;
      most = std::max(most, all / seconds);
    }
    return most;
  };
  constexpr int64_t kRounds = 2'000'000;
  return {best([] {
            float sink = 1e-9f;
            return cpu::RunFmaRounds(kRounds, &sink);
          }),
          best([] {
            int32_t sink = 0x01020304;
            return cpu::RunInt8Rounds(kRounds, &sink);
          })};
}

struct Sizes {
  std::vector<uint32_t> lengths, depths, batches;
  uint32_t steps;
};

Sizes SizesOf(const BenchContext& context) {
  const BenchOptions& options = context.options();
  Sizes sizes{.lengths = options.lengths, .depths = options.depths, .batches = options.batches};
  if (sizes.lengths.empty()) sizes.lengths = context.Pick<std::vector<uint32_t>>({64, 256, 512, 1024}, {16, 32});
  if (sizes.depths.empty()) sizes.depths = context.Pick<std::vector<uint32_t>>({0, 1024}, {0, 32});
  if (sizes.batches.empty()) sizes.batches = context.Pick<std::vector<uint32_t>>({1, 2, 4, 8, 16, 32, 64}, {1, 4});
  sizes.steps = context.Pick(8u, 2u);
  return sizes;
}

class EngineBench {
 public:
  EngineBench(BenchContext& context, BenchReport* report)
      : context_(context), report_(report), sizes_(SizesOf(context)) {
    if (!context.options().steal) return;
    for (ReportTable* table : {&prefill_, &decode_}) {
      table->columns.insert(table->columns.end(), {{"ms, a core taken", 2}, {"times slower", 2}});
    }
  }

  absl::Status Measure(const model::Model& model, WeightsFormat format) {
    BATON_ASSIGN_OR_RETURN(const auto weights, PackCpuWeights(model, format, context_.options().threads));
    if (ceilings_.fma == 0) ceilings_ = MeasureCeilings(context_.options().threads);
    // Of these very weights: small ones stay in the last-level cache, for decode steps as for the probe.
    reading_ = ProbeCpuPeak(*weights, context_.options().threads, std::chrono::milliseconds(500)).bytes_per_second;
    const DType stored = weights->layers.front().down.dtype;
    const bool integer = cpu::IsQuantized(stored);
    const std::string name(format == WeightsFormat::kAuto ? DTypeName(stored) : WeightsFormatName(format));
    limits_.rows.push_back({name, 1e-6 * static_cast<double>(weights->matrix_bytes), 1e-9 * ceilings_.fma,
                            1e-9 * ceilings_.int8, 1e-9 * reading_});
    BATON_RETURN_IF_ERROR(MeasurePrefill(weights, name, integer));
    return MeasureDecode(weights, name);
  }

  void Finish() {
    report_->tables.push_back(prefill_);
    report_->tables.push_back(decode_);
    report_->tables.push_back(limits_);
    report_->pictures.emplace_back(prefill_chart_);
    report_->pictures.emplace_back(decode_chart_);
  }

 private:
  // Medians over the rounds of what `step` says: on the machine as it is and, with --steal, with a core taken as well,
  // in turn.
  struct Times {
    double seconds = 0, stolen = 0;
  };
  absl::StatusOr<Times> InTurn(const std::string& what, const std::function<absl::StatusOr<double>()>& step) {
    std::vector<double> seconds, stolen;
    for (int round = -1; round < context_.options().repetitions; ++round) {
      context_.Step(what);
      BATON_ASSIGN_OR_RETURN(const double one, step());
      if (round >= 0) seconds.push_back(one);
      if (!context_.options().steal) continue;
      BATON_ASSIGN_OR_RETURN(const auto busy, BusyCore::Start());
      BATON_ASSIGN_OR_RETURN(const double other, step());
      if (round >= 0) stolen.push_back(other);
    }
    return Times{Median(seconds), Median(stolen)};
  }

  void AddRow(ReportTable& table, std::vector<TableCell> cells, const Times& times) {
    if (context_.options().steal) {
      cells.insert(cells.end(), {1e3 * times.stolen, times.stolen / times.seconds});
    }
    table.rows.push_back(std::move(cells));
  }

  absl::Status MeasurePrefill(const std::shared_ptr<const CpuWeights>& weights, const std::string& name, bool integer) {
    Series series{.name = name};
    for (const uint32_t length : sizes_.lengths) {
      BATON_ASSIGN_OR_RETURN(const auto rig, Rig(weights, 1, length, length));
      const std::vector<TokenId> prompt = Draw(context_.options().seed).Prompt(length, weights->config.vocab);
      BATON_ASSIGN_OR_RETURN(const Times times, InTurn(absl::StrFormat("%s: prompt of %d", name, length),
                                                       [&] { return rig->Prefill(prompt); }));
      const double rate = length / times.seconds;
      const double operations = static_cast<double>(rig->work().flops) / times.seconds;
      AddRow(prefill_,
             {name, static_cast<double>(length), rate, 1e-9 * operations,
              100 * operations / (integer ? ceilings_.int8 : ceilings_.fma), std::string(integer ? "int8" : "FMA")},
             times);
      series.points.emplace_back(length, rate);
    }
    prefill_chart_.series.push_back(std::move(series));
    return absl::OkStatus();
  }

  absl::Status MeasureDecode(const std::shared_ptr<const CpuWeights>& weights, const std::string& name) {
    for (const uint32_t depth : sizes_.depths) {
      Series series{.name = absl::StrFormat("%s, depth %d", name, depth)};
      for (const uint32_t batch : sizes_.batches) {
        // Pools of many GiB only for who asks.
        if (depth > 0 && batch > 16 && context_.options().batches.empty()) continue;
        BATON_ASSIGN_OR_RETURN(const auto rig, Rig(weights, batch, depth + sizes_.steps, batch));
        BATON_ASSIGN_OR_RETURN(const Times times,
                               InTurn(absl::StrFormat("%s: %d sequences at depth %d", name, batch, depth),
                                      [&] { return rig->Decode(depth, sizes_.steps); }));
        const double bytes = static_cast<double>(rig->work().bytes) / times.seconds;
        AddRow(decode_,
               {name, static_cast<double>(depth), static_cast<double>(batch), batch / times.seconds,
                1e3 * times.seconds, 1e-9 * bytes, 100 * bytes / reading_},
               times);
        series.points.emplace_back(batch, batch / times.seconds);
      }
      decode_chart_.series.push_back(std::move(series));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<EngineRig>> Rig(const std::shared_ptr<const CpuWeights>& weights, uint32_t sequences,
                                                 uint32_t positions, uint32_t step_tokens) const {
    return EngineRig::Create(weights, {.sequences = sequences,
                                       .positions = positions,
                                       .step_tokens = step_tokens,
                                       .kv_dtype = context_.options().kv_dtype,
                                       .threads = context_.options().threads});
  }

  BenchContext& context_;
  BenchReport* const report_;
  const Sizes sizes_;
  Ceilings ceilings_;
  double reading_ = 0;  // bytes a second of the weights at hand
  ReportTable limits_{
      .title = "Ceilings, measured in this run",
      .columns = {{"weights"}, {"MB", 0}, {"FMA, GFLOP/s", 1}, {"int8, Gop/s", 1}, {"reading them, GB/s", 1}},
      .rows = {}};
  ReportTable prefill_{
      .title = "Prefill of one prompt in one step",
      .columns = {{"weights"}, {"prompt", 0}, {"tokens/s", 1}, {"Gop/s", 1}, {"of ceiling, %", 0}, {"ceiling"}},
      .rows = {}};
  ReportTable decode_{.title = "Decode: steps of a token a sequence",
                      .columns = {{"weights"},
                                  {"depth", 0},
                                  {"sequences", 0},
                                  {"tokens/s", 1},
                                  {"ms a step", 2},
                                  {"GB/s", 1},
                                  {"of reading, %", 0}},
                      .rows = {}};
  LineChart prefill_chart_{
      .title = "Prefill", .x_label = "prompt tokens", .y_label = "tokens a second", .series = {}, .log_x = true};
  LineChart decode_chart_{.title = "Decode",
                          .x_label = "sequences together",
                          .y_label = "tokens a second, all together",
                          .series = {},
                          .log_x = true};
};

// As asked; of a file as it is, int8 and int4 beside it.
absl::StatusOr<std::vector<WeightsFormat>> FormatsOf(const BenchContext& context) {
  BATON_ASSIGN_OR_RETURN(std::vector<WeightsFormat> formats, context.AskedWeights());
  if (formats == std::vector{WeightsFormat::kAuto} && !context.options().only_stored) {
    formats.insert(formats.end(), {WeightsFormat::kInt8, WeightsFormat::kInt4});
  }
  return formats;
}

}  // namespace

absl::StatusOr<BenchReport> RunEngine(BenchContext& context) {
  BenchReport report = context.StartReport("engine", "Prefill and decode of the engine");
  BATON_ASSIGN_OR_RETURN(const std::string path, context.ModelPath());
  BATON_ASSIGN_OR_RETURN(const auto model, model::LoadModel(path));
  BATON_ASSIGN_OR_RETURN(const std::vector<WeightsFormat> formats, FormatsOf(context));
  report.settings.emplace_back("KV", std::string(DTypeName(context.options().kv_dtype)));
  EngineBench bench(context, &report);
  for (const WeightsFormat format : formats) BATON_RETURN_IF_ERROR(bench.Measure(*model, format));
  bench.Finish();
  return report;
}

}  // namespace baton::cli
