#include "services/worker/worker_main.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/rpc/otlp_exporter.h"
#include "common/rpc/server.h"
#include "common/rpc/signals.h"
#include "common/telemetry/process_metrics.h"
#include "common/transport/catalogue.h"
#include "services/worker/worker_service.h"

namespace baton {
namespace {

constexpr Duration kEndOfWorkPatience = std::chrono::seconds(5);

internal::v1::Identity LoadingIdentity(const WorkerProgram& program, const WorkerConfig& config,
                                       Incarnation incarnation) {
  internal::v1::Identity identity;
  identity.set_role(program.role);
  identity.set_incarnation(incarnation.value);
  identity.set_model(config.model_name);
  identity.set_version(kVersion);
  identity.set_protocol_version(kInternalProtocolVersion);
  identity.set_allow_mixed_numerics(config.control.allow_mixed_numerics);
  return identity;
}

internal::v1::Identity Complete(internal::v1::Identity identity, const WorkerRuntime& runtime, const WorkerRole& role) {
  identity.set_layout_hash(runtime.layout.Hash().value);
  identity.set_numerics_hash(runtime.numerics.value);
  identity.set_block_size(runtime.layout.block_size);
  identity.set_block_bytes(runtime.layout.BytesPerBlock());
  identity.set_pool_blocks(runtime.pool->size());
  identity.set_max_model_len(runtime.max_model_len);
  identity.set_max_batch(runtime.runner->max_batch());
  identity.set_vocab_size(runtime.runner->vocab_size());
  identity.set_max_lease_blocks(role.max_lease_blocks());
  identity.set_peak_flops_per_second(runtime.peak.flops_per_second);
  identity.set_peak_bytes_per_second(runtime.peak.bytes_per_second);
  return identity;
}

// Turns liveness off while the step loop makes no progress, and asks for a restart when the role needs one.
class Watchdog {
 public:
  Watchdog(const WorkerConfig& config, const WorkerRuntime& runtime, const WorkerRole& role, RpcServer& server,
           const Logger& log)
      : thread_([&, this] {
          bool live = true;
          bool restarting = false;
          while (!stop_.WaitForNotificationWithTimeout(absl::Seconds(1))) {
            const double stalled = Seconds(runtime.engine->stalled_for());
            if (live != (stalled < config.stall_seconds)) {
              live = !live;
              server.SetLive(live);
              log.Error(live ? "the step loop goes on" : "the step loop makes no progress", {{"seconds", stalled}});
            }
            if (!restarting && role.must_restart()) {
              restarting = true;
              log.Error("too many KV blocks are quarantined; draining to restart");
              kill(getpid(), SIGTERM);
            }
          }
        }) {}
  ~Watchdog() {
    stop_.Notify();
    thread_.join();
  }

 private:
  absl::Notification stop_;
  std::thread thread_;
};

// Waits for the signal from the start, so that it also ends a load of many minutes, where there is nothing to drain.
class StopSignal {
 public:
  StopSignal() {
    std::thread([state = state_] {
      state->signal = WaitForStopSignal();
      if (state->loading) {
        RemoveTransportLeftovers();
        std::_Exit(128 + state->signal);
      }
      state->stopped.Notify();
    }).detach();
  }
  void LoadingEnds() { state_->loading = false; }
  int Wait() {
    state_->stopped.WaitForNotification();
    return state_->signal;
  }

 private:
  struct State {
    std::atomic<bool> loading{true};
    std::atomic<int> signal{0};
    absl::Notification stopped;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

int Fail(const Logger& log, const absl::Status& status) {
  log.Error("cannot start", {{"error", StatusMessage(status)}});
  return 1;
}

}  // namespace

int RunWorker(const WorkerProgram& program, int argc, char** argv) {
  BlockStopSignals();
  WorkerConfig config;
  Flags flags(program.name, program.description);
  config.AddTo(flags);
  if (program.add_flags) program.add_flags(flags);
  if (const std::optional<int> exit_code = flags.Parse(argc, argv)) return *exit_code;
  const absl::StatusOr<LogLevel> level = ParseLogLevel(config.log_level);
  const Logger log(program.name, level.ok() ? *level : LogLevel::kInfo);
  if (const absl::Status status = config.Finish(flags); !status.ok()) return Fail(log, status);

  StopSignal stop;
  const Incarnation incarnation{RandomU64()};
  Metrics metrics(MetricLabels{{"model", config.model_name},
                               {"role", program.role == internal::v1::ROLE_PREFILL ? "prefill" : "decode"}});
  AddProcessMetrics(metrics, kVersion);
  WorkerMetrics worker_metrics(metrics);
  const auto spans = OtlpExporter::Start(
      {.collector = config.collector, .service = program.name, .instance = absl::StrFormat("%016x", incarnation.value)},
      SpanMetrics(metrics), &log);
  if (!spans.ok()) return Fail(log, spans.status());
  const auto role = program.make_role(config, log, metrics, worker_metrics);
  const internal::v1::Identity identity = LoadingIdentity(program, config, incarnation);
  WorkerServiceImpl worker_service(identity, [] { kill(getpid(), SIGTERM); });

  const auto metrics_port = metrics.Serve(config.metrics_host, config.metrics_port);
  if (!metrics_port.ok()) return Fail(log, metrics_port.status());
  auto server = RpcServer::Start(config.server, {&worker_service, role->service()}, {program.readiness});
  if (!server.ok()) return Fail(log, server.status());
  log.Info("listening", {{"port", (*server)->port()},
                         {"metrics_port", *metrics_port},
                         {"incarnation", absl::StrFormat("%016x", incarnation.value)},
                         {"version", kVersion}});

  auto loaded =
      WorkerRuntime::Load(config, incarnation, log, [&](const StepReport& report) { worker_metrics.OnStep(report); });
  if (!loaded.ok()) return Fail(log, loaded.status());
  const std::shared_ptr<WorkerRuntime> runtime = *std::move(loaded);
  runtime->spans = spans->get();
  if (const absl::Status status = role->Attach(runtime); !status.ok()) return Fail(log, status);
  worker_metrics.Attach(runtime);
  worker_service.SetReady(runtime, Complete(identity, *runtime, *role),
                          [&role](internal::v1::Load* load) { role->AddTo(load); });
  (*server)->SetReady(true);
  stop.LoadingEnds();
  log.Info("ready", {{"port", (*server)->port()}});

  {
    const Watchdog watchdog(config, *runtime, *role, **server, log);
    const int signal = stop.Wait();
    (*server)->SetReady(false);
    worker_metrics.OnDrain();
    worker_service.publisher().SetDraining();
    role->StopAccepting();
    // From this line on nothing new is accepted.
    log.Info("draining", {{"signal", signal}, {"open_work", role->open_work()}});
    const TimePoint deadline = runtime->clock.Now() + std::chrono::duration_cast<Duration>(
                                                          std::chrono::duration<double>(config.grace_seconds));
    while (role->open_work() > 0 && runtime->clock.Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
    if (role->open_work() > 0) log.Warning("grace period is over", {{"open_work", role->open_work()}});
  }
  (*server)->Shutdown(std::chrono::seconds(1));
  metrics.StopServing();
  // gRPC is done with every call, but the engine and handoffs may hold some until their next step; what those use must
  // not go from under them, nor with the last of them on one of its own threads. Peers that fall silent now cannot hold
  // the exit up: its end of their connections tells them enough.
  const TimePoint patience = runtime->clock.Now() + kEndOfWorkPatience;
  while (!role->unused() && runtime->clock.Now() < patience) absl::SleepFor(absl::Milliseconds(5));
  if (*spans) (*spans)->Stop();
  log.Info("stopped");
  if (!role->unused()) std::_Exit(0);
  return 0;
}

}  // namespace baton
