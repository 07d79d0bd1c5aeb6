// Prefill and decode on the same worker against workers of their own, on the same cores.

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/base/status.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/machine.h"
#include "services/cli/bench/open_loop.h"
#include "services/cli/bench/service.h"

namespace baton::cli {
namespace {

// Two workers, each pinned to its half of the cores; the router may run anywhere, as it does in both.
std::pair<ProcessOptions, ProcessOptions> Halves() {
  const std::vector<int> cores = AllowedCores();
  const auto middle = cores.begin() + static_cast<ptrdiff_t>((cores.size() + 1) / 2);
  ProcessOptions first{.cores = {cores.begin(), middle}, .flags = {}};
  ProcessOptions second{.cores = {middle, cores.end()}, .flags = {}};
  if (second.cores.empty()) second.cores = first.cores;  // one core: they share it, in both deployments
  return {first, second};
}

// Of all rounds.
struct Sample {
  std::vector<double> first_token, gaps;
  double tokens = 0, seconds = 0;

  void Add(const TraceSummary& round) {
    first_token.insert(first_token.end(), round.first_token.begin(), round.first_token.end());
    gaps.insert(gaps.end(), round.gaps.begin(), round.gaps.end());
    tokens += static_cast<double>(round.tokens);
    seconds += round.seconds;
  }
};

struct Point {
  double rate;
  Sample sample[2];                // colocated, split
  Distribution first[2], gaps[2];  // of the samples
};

// Where the sign of split - colocated changes, between the rates beside it.
std::optional<double> Crossing(const std::vector<Point>& points, double (*of)(const Point&, int)) {
  for (size_t i = 1; i < points.size(); ++i) {
    const double before = of(points[i - 1], 1) - of(points[i - 1], 0), after = of(points[i], 1) - of(points[i], 0);
    if (before * after < 0) {
      return points[i - 1].rate + (points[i].rate - points[i - 1].rate) * before / (before - after);
    }
  }
  return std::nullopt;
}

double FirstP99(const Point& point, int which) { return point.first[which].p99; }
double GapP99(const Point& point, int which) { return point.gaps[which].p99; }

std::string Verdict(const std::vector<Point>& points, const std::string& what, double (*of)(const Point&, int)) {
  const auto better = std::count_if(points.begin(), points.end(), [&](const Point& p) { return of(p, 1) < of(p, 0); });
  std::string text = absl::StrFormat("%s: split is better at %d of %d rates", what, better, points.size());
  if (points.size() < 2) return text;
  const auto at = Crossing(points, of);
  return text + (at ? absl::StrFormat("; they cross near %.2f requests a second", *at)
                    : absl::StrFormat("; they do not cross from %.2f to %.2f requests a second", points.front().rate,
                                      points.back().rate));
}

}  // namespace

absl::StatusOr<BenchReport> RunDisagg(BenchContext& context) {
  const BenchOptions& options = context.options();
  const auto rounds = static_cast<uint32_t>(options.repetitions);
  BenchReport report = context.StartReport(
      "disagg", "Colocated against split prefill and decode, on the same cores",
      absl::StrFormat("percentiles over the requests of %d rounds in turn, each after a warm-up", rounds));
  const LoadShape shape = ShapeOfLoad(context, 12);
  const auto [one, other] = Halves();
  DeploymentOptions colocated{.decode = {one, other}}, split{.prefill = {one}, .decode = {other}};
  colocated.router.flags = {"--disaggregation", "never"};
  split.router.flags = {"--disaggregation", "always"};

  // One deployment at a time has the cores; rates come from what the colocated one can do.
  std::vector<Point> points;
  bool equal = true;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::vector<std::vector<RequestTrace>> answers[2];
    for (const int which : {0, 1}) {
      BATON_ASSIGN_OR_RETURN(const auto service, Service::Start(context, which == 0 ? colocated : split));
      const DeploymentLoad& load = service->load();
      if (points.empty()) {
        BATON_ASSIGN_OR_RETURN(const double most, SaturatedRate(load, shape, options.seed));
        std::vector<double> shares = context.Pick<std::vector<double>>({0.2, 0.4, 0.6, 0.8, 1.0}, {0.5, 1.0});
        if (options.rate > 0) shares = {options.rate / most};
        for (const double share : shares) points.push_back({.rate = share * most});
        context.ExpectSteps(2 * points.size() * rounds);
      } else {
        BATON_RETURN_IF_ERROR(WarmUp(load, DrawLoad(shape, 1, load.vocab(), options.seed, 1001)));
      }
      for (size_t i = 0; i < points.size(); ++i) {
        Point& point = points[i];
        context.Step(absl::StrFormat("%s, %.2f requests/s", which == 0 ? "colocated" : "split", point.rate));
        LoadShape part = shape;
        part.requests = (shape.RequestsAt(point.rate) + rounds - 1) / rounds;
        std::vector<RequestTrace> traces =
            load.Run(DrawLoad(part, point.rate, load.vocab(), options.seed, round * points.size() + i));
        BATON_RETURN_IF_ERROR(FirstError(traces));
        point.sample[which].Add(Summarize(traces));
        answers[which].push_back(std::move(traces));
      }
    }
    for (size_t i = 0; i < points.size(); ++i) equal = equal && SameTokens(answers[0][i], answers[1][i]);
  }
  for (Point& point : points) {
    for (const int which : {0, 1}) {
      point.first[which] = Describe(point.sample[which].first_token);
      point.gaps[which] = Describe(point.sample[which].gaps);
    }
  }

  ReportTable table{
      .title = absl::StrFormat("Prompts around %d tokens, answers around %d; two workers of %d cores each",
                               shape.prompt_tokens, shape.output_tokens, one.cores.size()),
      .columns = {{"requests/s", 2},
                  {"requests", 0},
                  {"workers"},
                  {"TTFT P50, ms", 1},
                  {"TTFT P99, ms", 1},
                  {"ITL P50, ms", 1},
                  {"ITL P99, ms", 1},
                  {"tokens/s", 1}},
      .rows = {}};
  const char* const names[2] = {"colocated", "split"};
  LineChart first{.title = "Time to first token", .x_label = "requests a second", .y_label = "ms", .series = {}};
  LineChart gaps{.title = "Gaps between tokens", .x_label = "requests a second", .y_label = "ms", .series = {}};
  for (const int which : {0, 1}) {
    Series series[4] = {{.name = absl::StrFormat("%s P50", names[which])},
                        {.name = absl::StrFormat("%s P99", names[which])},
                        {.name = absl::StrFormat("%s P50", names[which])},
                        {.name = absl::StrFormat("%s P99", names[which])}};
    for (const Point& point : points) {
      series[0].points.emplace_back(point.rate, 1e3 * point.first[which].p50);
      series[1].points.emplace_back(point.rate, 1e3 * point.first[which].p99);
      series[2].points.emplace_back(point.rate, 1e3 * point.gaps[which].p50);
      series[3].points.emplace_back(point.rate, 1e3 * point.gaps[which].p99);
    }
    for (const int i : {0, 1}) first.series.push_back(series[i]);
    for (const int i : {2, 3}) gaps.series.push_back(series[i]);
  }
  for (const Point& point : points) {
    for (const int which : {0, 1}) {
      table.rows.push_back({point.rate, static_cast<double>(point.first[which].count), std::string(names[which]),
                            1e3 * point.first[which].p50, 1e3 * point.first[which].p99, 1e3 * point.gaps[which].p50,
                            1e3 * point.gaps[which].p99, point.sample[which].tokens / point.sample[which].seconds});
    }
  }
  report.tables.push_back(std::move(table));
  report.pictures.emplace_back(std::move(first));
  report.pictures.emplace_back(std::move(gaps));
  report.notes.push_back(Verdict(points, "TTFT P99", FirstP99));
  report.notes.push_back(Verdict(points, "ITL P99", GapP99));
  report.AddCheck("the same tokens colocated and split", equal);
  return report;
}

}  // namespace baton::cli
