// What moving a prompt's KV between workers costs, by prompt length and transport.

#include "common/base/status.h"
#include "services/cli/bench/benches.h"
#include "services/cli/bench/service.h"

namespace baton::cli {
namespace {

struct Lane {
  std::string name;
  std::vector<std::string> flags;
};

absl::Status MeasureLane(BenchContext& context, const Service& service, const std::string& lane, ReportTable* table,
                         LineChart* chart, bool* moved) {
  const std::vector<uint32_t> lengths = context.Pick<std::vector<uint32_t>>({64, 256, 512, 1024, 2048}, {16, 48});
  const int rounds = context.options().repetitions;
  Series series{.name = lane};
  context.ExpectSteps(lengths.size() * (static_cast<uint64_t>(rounds) + 1));
  uint64_t drawn = context.options().seed;
  for (const uint32_t length : lengths) {
    std::vector<double> transfer, tail, first, share;
    double bytes = 0;
    std::string transport;
    for (int round = -1; round < rounds; ++round) {
      context.Step(absl::StrFormat("%s, prompt of %d", lane, length));
      // Another prompt each time: a cached one does not move.
      const BenchRequest request{0, Draw(++drawn * 7919).Prompt(length, service.load().vocab()), 4};
      const RequestTrace trace = service.load().RunOne(request, true);
      BATON_RETURN_IF_ERROR(trace.status);
      *moved = *moved && trace.transfer_bytes > 0;
      if (round < 0) continue;
      bytes = static_cast<double>(trace.transfer_bytes);
      transport = trace.transport;
      transfer.push_back(trace.transfer_seconds);
      tail.push_back(trace.transfer_tail_seconds);
      first.push_back(trace.time_to_first_token());
      share.push_back(trace.transfer_seconds / trace.time_to_first_token());
    }
    const double rate = 1e-9 * bytes / Median(transfer);
    table->rows.push_back({lane, transport, static_cast<double>(length), 1e-6 * bytes, 1e3 * Median(transfer), rate,
                           1e3 * Median(tail), 1e3 * Median(first), 100 * Median(share)});
    series.points.emplace_back(length, rate);
  }
  chart->series.push_back(std::move(series));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchReport> RunHandoff(BenchContext& context) {
  BenchReport report = context.StartReport("handoff", "What a handoff of KV costs");
  ReportTable table{.title = "Transfer of a prompt's KV: the time in which puts are under way, beside the computation",
                    .columns = {{"lane"},
                                {"transport"},
                                {"prompt", 0},
                                {"MB", 2},
                                {"transfer, ms", 2},
                                {"GB/s", 2},
                                {"tail, ms", 2},
                                {"TTFT, ms", 1},
                                {"transfer / TTFT, %", 1}},
                    .rows = {}};
  LineChart chart{.title = "Transfer rate by length of the prompt",
                  .x_label = "prompt tokens",
                  .y_label = "GB/s",
                  .series = {},
                  .log_x = true};
  bool moved = true;
  if (context.options().has_router) {
    BATON_ASSIGN_OR_RETURN(const auto service, Service::For(context, {}));
    BATON_RETURN_IF_ERROR(MeasureLane(context, *service, "as deployed", &table, &chart, &moved));
  } else {
    for (const Lane& lane :
         {Lane{"shared memory", {}}, Lane{"messages", {"--message_puts"}}, Lane{"tcp", {"--ucx_tls", "tcp"}}}) {
      DeploymentOptions own{.prefill = {{}}, .decode = {{}}, .worker_flags = lane.flags};
      own.router.flags = {"--disaggregation", "always"};
      BATON_ASSIGN_OR_RETURN(const auto service, Service::Start(context, std::move(own)));
      BATON_RETURN_IF_ERROR(MeasureLane(context, *service, lane.name, &table, &chart, &moved));
    }
  }
  report.tables.push_back(std::move(table));
  report.pictures.emplace_back(std::move(chart));
  report.notes.push_back(
      "The tail is the time from the first token to the decode worker's answer: all that a client can feel.");
  report.AddCheck("every prompt's KV moved", moved);
  return report;
}

}  // namespace baton::cli
