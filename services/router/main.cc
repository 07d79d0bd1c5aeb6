#include <map>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/rpc/otlp_exporter.h"
#include "common/rpc/signals.h"
#include "common/telemetry/process_metrics.h"
#include "services/router/admin_service.h"
#include "services/router/inference_service.h"

namespace baton {
namespace {

int Fail(const Logger& log, const absl::Status& status) {
  log.Error("cannot start", {{"error", StatusMessage(status)}});
  return 1;
}

std::map<RouterMetrics::WorkerGroup, int> CountWorkers(const WorkerDirectory& directory) {
  std::map<RouterMetrics::WorkerGroup, int> counts;
  for (const auto& link : directory.All()) {
    const WorkerLink::State state = link->state();
    RouterMetrics::WorkerGroup group{state.identity.model(), "unknown", "loading"};
    if (group.model.empty()) group.model = "unknown";
    if (state.identity.role() == internal::v1::ROLE_PREFILL) group.role = "prefill";
    if (state.identity.role() == internal::v1::ROLE_DECODE) group.role = "decode";
    if (!state.connected) {
      group.state = "unreachable";
    } else if (state.stage == internal::v1::STAGE_DRAINING) {
      group.state = "draining";
    } else if (state.ready()) {
      group.state = "ready";
    }
    ++counts[group];
  }
  return counts;
}

int Run(int argc, char** argv) {
  BlockStopSignals();
  RouterConfig config;
  Flags flags("baton-router", "Takes requests, pairs prefill and decode workers, streams their tokens.");
  config.AddTo(flags);
  if (const std::optional<int> exit_code = flags.Parse(argc, argv)) return *exit_code;
  const absl::StatusOr<LogLevel> level = ParseLogLevel(config.log_level);
  const Logger log("baton-router", level.ok() ? *level : LogLevel::kInfo);
  if (const absl::Status status = config.Finish(); !status.ok()) return Fail(log, status);
  // Channels read them again, each when its worker is found; here nobody has to wait for one to learn of a wrong file.
  if (const auto files = ReadTlsFiles(config.worker_channel.tls); !files.ok()) return Fail(log, files.status());

  // In this order, so that what is used ends after what uses it.
  const SteadyClock clock;
  Metrics metrics(MetricLabels{{"role", "router"}});
  AddProcessMetrics(metrics, kVersion);
  RouterMetrics router_metrics(metrics);
  const auto spans = OtlpExporter::Start(
      {.collector = config.collector, .service = "baton-router", .instance = absl::StrFormat("%016x", RandomU64())},
      SpanMetrics(metrics), &log);
  if (!spans.ok()) return Fail(log, spans.status());
  AdmissionQueue queue(config.max_running, config.max_waiting, config.priority_aging, &clock);
  RequestTable table;
  absl::Mutex ready_mutex;  // held while the directory uses the server, so that it cannot go meanwhile
  RpcServer* ready_server = nullptr;
  TimerQueue timers;
  WorkerDirectory directory(config, &timers, &log, [&](bool ready) {
    absl::MutexLock lock(&ready_mutex);
    if (ready_server) ready_server->SetReady(ready);
  });
  TaskPool text(static_cast<int>(config.text_threads), config.places());
  const RouterContext router{&config, &log, &router_metrics, &timers, &directory, &clock, spans->get()};
  InferenceServiceImpl inference({router, &queue, &text, &table});
  AdminServiceImpl admin(&directory, &queue, &router_metrics);

  router_metrics.SetLimits(config.max_running, config.max_waiting);
  metrics.OnScrape([&] {
    router_metrics.running().Set(queue.running());
    router_metrics.waiting().Set(queue.waiting());
    router_metrics.SetWorkers(CountWorkers(directory));
    bool serves = false;
    for (const auto& model : directory.Models()) {
      router_metrics.Model(model->name);  // its series exist before its first request
      serves = serves || directory.Serves(*model);
    }
    router_metrics.ready().Set(serves ? 1 : 0);
  });
  const auto metrics_port = metrics.Serve(config.metrics_host, config.metrics_port);
  if (!metrics_port.ok()) return Fail(log, metrics_port.status());
  auto server = RpcServer::Start(config.server, {&inference, &admin},
                                 {v1::InferenceService::service_full_name(), v1::AdminService::service_full_name()});
  if (!server.ok()) return Fail(log, server.status());
  {
    absl::MutexLock lock(&ready_mutex);
    ready_server = server->get();
  }
  directory.Start();
  log.Info("listening",
           {{"port", (*server)->port()}, {"metrics_port", *metrics_port}, {"version", std::string(kVersion)}});

  const int signal = WaitForStopSignal();
  inference.StopAccepting();
  {
    absl::MutexLock lock(&ready_mutex);
    ready_server = nullptr;
  }
  (*server)->SetReady(false);
  // From this line on nothing new is accepted.
  log.Info("draining", {{"signal", signal}, {"requests", table.size()}});
  const TimePoint deadline =
      clock.Now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(config.grace_seconds));
  while (table.size() > 0 && clock.Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  table.CancelAll(grpc::Status(grpc::StatusCode::UNAVAILABLE, "this router stopped before the request had ended"));
  (*server)->Shutdown(std::chrono::seconds(1));
  if (*spans) (*spans)->Stop();
  metrics.StopServing();
  log.Info("stopped");
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Run(argc, argv); }
