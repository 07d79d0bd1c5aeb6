// When an answer becomes visible: all at once, or as it is generated.

#include <optional>

#include "common/base/status.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/service.h"

namespace baton::cli {

absl::StatusOr<BenchReport> RunStreaming(BenchContext& context) {
  BenchReport report = context.StartReport("streaming", "Blocking against streaming");
  BATON_ASSIGN_OR_RETURN(const auto service, Service::For(context, {.decode = {{}}}));
  Draw draw(context.options().seed);
  const BenchRequest request{0, draw.Prompt(context.Pick(64u, 16u), service->load().vocab()), context.Pick(128u, 16u)};
  RequestTrace blocking, streaming;
  std::vector<double> first[2], total[2], ratios;
  bool equal = true;
  const int rounds = context.options().repetitions;
  context.ExpectSteps(2 * (static_cast<uint64_t>(rounds) + 1));
  for (int round = -1; round < rounds; ++round) {
    context.Step("blocking");
    blocking = service->load().RunOne(request, false);
    BATON_RETURN_IF_ERROR(blocking.status);
    context.Step("streaming");
    streaming = service->load().RunOne(request, true);
    BATON_RETURN_IF_ERROR(streaming.status);
    equal = equal && blocking.ids == streaming.ids && blocking.text == streaming.text;
    if (round < 0) continue;
    for (const bool stream : {false, true}) {
      const RequestTrace& trace = stream ? streaming : blocking;
      first[stream].push_back(trace.text_times.empty() ? trace.end : trace.text_times.front().first);
      total[stream].push_back(trace.end);
    }
    ratios.push_back(streaming.end / blocking.end);
  }
  ReportTable table{
      .title = absl::StrFormat("Prompt of %d tokens, %d generated", request.prompt.size(), request.max_tokens),
      .columns = {{"call"}, {"first visible output, ms", 1}, {"total, ms", 1}, {"total / blocking", 3}},
      .rows = {}};
  for (const bool stream : {false, true}) {
    table.rows.push_back({std::string(stream ? "streaming" : "blocking"), 1e3 * Median(first[stream]),
                          1e3 * Median(total[stream]), stream ? Median(ratios) : 1.0});
  }
  report.tables.push_back(std::move(table));
  LineChart chart{.title = "Visible characters over time (last round)",
                  .x_label = "ms after the call",
                  .y_label = "characters",
                  .series = {}};
  for (const RequestTrace* trace : {&streaming, &blocking}) {
    Series series{.name = trace == &streaming ? "streaming" : "blocking", .points = {{0, 0}}, .steps = true};
    for (const auto& [time, characters] : trace->text_times) series.points.emplace_back(1e3 * time, characters);
    series.points.emplace_back(1e3 * std::max(streaming.end, blocking.end), series.points.back().second);
    chart.series.push_back(std::move(series));
  }
  report.pictures.emplace_back(std::move(chart));
  report.notes.push_back(
      absl::StrFormat("streaming costs %.1f%% of the total; the aim is at most 2%%", 100 * (Median(ratios) - 1)));
  report.AddCheck("ids and text are the same", equal);
  return report;
}

}  // namespace baton::cli
