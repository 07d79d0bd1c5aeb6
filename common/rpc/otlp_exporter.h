#pragma once

// Sends spans to an OpenTelemetry collector over OTLP/gRPC, off the request path.
//
// One thread sends what a bounded queue holds, in batches, every second or when a batch is full. A collector that hangs
// or is not there costs spans, never requests: what does not fit into the queue is dropped and counted.

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/config/flags.h"
#include "common/rpc/server.h"
#include "common/telemetry/log.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/span.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

namespace baton {

struct OtlpCollector {
  std::string endpoint;  // "host:port" or "http://host:port": plain text; "https://host:port": TLS; empty: no spans
  TlsOptions tls;        // ca: who signed the collector's certificate, empty: the system's authorities
};
// --otlp_endpoint, --otlp_tls_ca, --otlp_tls_cert, --otlp_tls_key.
void AddTracingFlags(Flags& flags, OtlpCollector& collector);

// Series exist whether spans are sent or not.
struct SpanMetrics {
  explicit SpanMetrics(Metrics& metrics);
  prometheus::Counter &exported, &queue_full, &failed;
};

class OtlpExporter final : public SpanSink {
 public:
  struct Options {
    OtlpCollector collector;
    std::string service;   // service.name, "baton-router"
    std::string instance;  // service.instance.id, one process start
    size_t queue_spans = 8192;
    size_t batch_spans = 512;
    Duration interval = std::chrono::seconds(1);
    Duration call_timeout = std::chrono::seconds(5);
    Duration flush_timeout = std::chrono::seconds(2);  // at the end
  };
  // nullptr when there is no endpoint. INVALID_ARGUMENT for one that is no host:port, and for TLS files without https
  // or of which one is missing; NOT_FOUND for a file that is not there. Connects with the first batch.
  static absl::StatusOr<std::unique_ptr<OtlpExporter>> Start(Options options, const SpanMetrics& metrics,
                                                             const Logger* log);
  // Sends what is queued for at most flush_timeout.
  ~OtlpExporter() override;

  void Add(Span span) override;
  // What the destructor does; later spans are dropped.
  void Stop();

 private:
  OtlpExporter(Options options, const std::shared_ptr<grpc::Channel>& channel, const SpanMetrics& metrics,
               const Logger* log);

  void Loop();
  void Send(std::vector<Span> spans);
  grpc::Status Export(const opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest& request,
                      opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse* response);
  // True when the end of the flush has come.
  bool OutOfTime() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  SpanMetrics metrics_;
  const Logger* const log_;
  const SteadyClock clock_;
  const std::unique_ptr<opentelemetry::proto::collector::trace::v1::TraceService::Stub> stub_;

  mutable absl::Mutex mutex_;
  std::vector<Span> queue_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint flush_until_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* calling_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool healthy_ = true;  // the thread's: the last batch arrived
  std::thread thread_;
};

}  // namespace baton
