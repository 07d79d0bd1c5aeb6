// A service under load that does not wait for it: Poisson arrivals or a trace; latency and goodput.

#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/open_loop.h"
#include "services/cli/bench/service.h"

namespace baton::cli {
namespace {

absl::StatusOr<std::string> ReadTrace(const BenchOptions& options) {
  std::ifstream file(options.trace);
  if (!file) return NotFound("%s cannot be read", options.trace);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Run {
  std::string name;  // "2.5/s", or the trace's
  double rate = 0;
  std::vector<RequestTrace> traces;
};

absl::StatusOr<std::vector<Run>> RunAll(BenchContext& context, const DeploymentLoad& load) {
  const BenchOptions& options = context.options();
  std::vector<Run> runs;
  if (!options.trace.empty()) {
    context.Step("warming up");
    BATON_ASSIGN_OR_RETURN(const std::string text, ReadTrace(options));
    Draw draw(options.seed);  // the prompts of one reading differ from the next's
    BATON_ASSIGN_OR_RETURN(std::vector<BenchRequest> others, ParseTrace(text, load.vocab(), &draw));
    BATON_RETURN_IF_ERROR(WarmUp(load, std::move(others)));
    BATON_ASSIGN_OR_RETURN(const auto requests, ParseTrace(text, load.vocab(), &draw));
    context.Step("replaying the trace");
    runs.push_back({"trace", 0, load.Run(requests)});
    return runs;
  }
  const LoadShape shape = ShapeOfLoad(context, 20);
  std::vector<double> rates = {options.rate};
  if (options.rate == 0) {
    context.Step("finding what the service can do");
    BATON_ASSIGN_OR_RETURN(const double most, SaturatedRate(load, shape, options.seed));
    rates = context.Pick<std::vector<double>>({0.25 * most, 0.5 * most, 0.75 * most, 1.0 * most, 1.25 * most},
                                              {0.5 * most, most});
  } else {
    context.Step("warming up");
    BATON_RETURN_IF_ERROR(WarmUp(load, DrawLoad(shape, options.rate, load.vocab(), options.seed, 1001)));
  }
  context.ExpectSteps(rates.size());
  uint64_t salt = 0;
  for (const double rate : rates) {
    const std::string name = FormatCell(rate, 2) + "/s";
    context.Step(name);
    runs.push_back({name, rate, load.Run(DrawLoad(shape, rate, load.vocab(), options.seed, ++salt))});
  }
  return runs;
}

}  // namespace

absl::StatusOr<BenchReport> RunLoad(BenchContext& context) {
  BenchReport report = context.StartReport("load", "Latency and goodput under an open load",
                                           "percentiles over all requests after a warm-up");
  const BenchOptions& options = context.options();
  DeploymentOptions own{.prefill = {{}}, .decode = {{}}};
  BATON_ASSIGN_OR_RETURN(const auto service, Service::For(context, std::move(own)));
  BATON_ASSIGN_OR_RETURN(const std::vector<Run> runs, RunAll(context, service->load()));
  const std::vector<TableColumn> columns = {{"arrivals"},   {"what"},         {"P50, ms", 1}, {"P90, ms", 1},
                                            {"P99, ms", 1}, {"P99.9, ms", 1}, {"max, ms", 1}};
  ReportTable latency{.title = "Latency from the moment a request was due", .columns = columns, .rows = {}};
  ReportTable goodput{
      .title = absl::StrFormat("Goodput: TTFT within %g ms and P99 of a request's gaps within %g ms", options.ttft_ms,
                               options.itl_ms),
      .columns = {{"arrivals"}, {"requests", 0}, {"failed", 0}, {"good, %", 1}, {"good a second", 2}, {"tokens/s", 1}},
      .rows = {}};
  Series good{.name = "good requests a second"}, offered{.name = "arrivals"};
  Series first{.name = "TTFT P99"}, gap{.name = "ITL P99"};
  bool complete = true;
  for (const Run& run : runs) {
    const TraceSummary summary = Summarize(run.traces);
    for (const auto& [what, values] : {std::pair("TTFT", summary.first_token), std::pair("ITL", summary.gaps),
                                       std::pair("whole answer", summary.latency)}) {
      const Distribution d = Describe(values);
      latency.rows.push_back(
          {run.name, std::string(what), 1e3 * d.p50, 1e3 * d.p90, 1e3 * d.p99, 1e3 * d.p999, 1e3 * d.max});
    }
    const double share = GoodShare(run.traces, 1e-3 * options.ttft_ms, 1e-3 * options.itl_ms);
    const double rate = share * static_cast<double>(run.traces.size()) / std::max(1e-9, summary.seconds);
    goodput.rows.push_back({run.name, static_cast<double>(run.traces.size()), static_cast<double>(summary.failed),
                            100 * share, rate, summary.tokens_per_second});
    offered.points.emplace_back(run.rate, run.rate);
    good.points.emplace_back(run.rate, rate);
    first.points.emplace_back(run.rate, 1e3 * Percentile(summary.first_token, 99));
    gap.points.emplace_back(run.rate, 1e3 * Percentile(summary.gaps, 99));
    complete = complete && summary.failed == 0;
  }
  report.tables.push_back(std::move(goodput));
  report.tables.push_back(std::move(latency));
  report.pictures.emplace_back(LineChart{
      .title = "Goodput", .x_label = "arrivals a second", .y_label = "requests a second", .series = {good, offered}});
  report.pictures.emplace_back(LineChart{
      .title = "Latency", .x_label = "arrivals a second", .y_label = "ms", .series = {first, gap}, .log_y = true});
  report.AddCheck("every request was answered", complete);
  return report;
}

}  // namespace baton::cli
