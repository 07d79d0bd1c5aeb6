#include "common/rpc/otlp_exporter.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <iterator>

#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/config/host_port.h"
#include "common/rpc/channel.h"

namespace baton {
namespace {

namespace otlp_trace = opentelemetry::proto::trace::v1;
using opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
using opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
using opentelemetry::proto::collector::trace::v1::TraceService;
using opentelemetry::proto::common::v1::KeyValue;

constexpr int kTries = 3;
constexpr Duration kFirstWait = std::chrono::milliseconds(200);

// The codes that OTLP calls retryable.
bool Retryable(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    default:
      return false;
  }
}

struct AttributeSetter {
  KeyValue* out;
  void operator()(const std::string& value) const { out->mutable_value()->set_string_value(value); }
  void operator()(bool value) const { out->mutable_value()->set_bool_value(value); }
  void operator()(int64_t value) const { out->mutable_value()->set_int_value(value); }
  void operator()(double value) const { out->mutable_value()->set_double_value(value); }
};

void Set(KeyValue* out, const std::string& key, const SpanValue& value) {
  out->set_key(key);
  std::visit(AttributeSetter{out}, value);
}

template <typename Id>
std::string Bytes(const Id& id) {
  return std::string(reinterpret_cast<const char*>(id.data()), id.size());
}

// Unix time of a steady one, by where both clocks stand now.
uint64_t UnixNanoseconds(TimePoint time, Duration steady_to_unix) {
  return static_cast<uint64_t>((time.time_since_epoch() + steady_to_unix).count());
}

void ToProto(const Span& span, Duration steady_to_unix, otlp_trace::Span* out) {
  out->set_trace_id(Bytes(span.context.trace_id));
  out->set_span_id(Bytes(span.context.span_id));
  out->set_trace_state(span.context.state);
  if (span.parent != SpanId{}) out->set_parent_span_id(Bytes(span.parent));
  out->set_name(span.name);
  out->set_kind(span.kind == Span::Kind::kServer ? otlp_trace::Span::SPAN_KIND_SERVER
                                                 : otlp_trace::Span::SPAN_KIND_INTERNAL);
  out->set_start_time_unix_nano(UnixNanoseconds(span.start, steady_to_unix));
  out->set_end_time_unix_nano(UnixNanoseconds(span.end, steady_to_unix));
  for (const auto& [key, value] : span.attributes) Set(out->add_attributes(), key, value);
  out->set_flags(span.context.sampled ? 1 : 0);
  if (!span.error.empty()) {
    out->mutable_status()->set_code(otlp_trace::Status::STATUS_CODE_ERROR);
    out->mutable_status()->set_message(span.error);
  }
}

struct Endpoint {
  std::string target;  // "host:port"
  bool tls = false;
};

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text) {
  Endpoint endpoint{text};
  if (text.starts_with("http://")) endpoint.target = text.substr(7);
  if (text.starts_with("https://")) endpoint = {text.substr(8), true};
  while (endpoint.target.ends_with('/')) endpoint.target.pop_back();
  if (!ParseHostPort(endpoint.target).ok() || endpoint.target.find('/') != std::string::npos) {
    return InvalidArgument(
        "--otlp_endpoint is '%s', must be host:port, http://host:port or https://host:port of a collector's OTLP/gRPC "
        "receiver",
        text);
  }
  return endpoint;
}

// Files of TLS say that plain text is not meant.
absl::Status RefuseTls(const OtlpCollector& collector) {
  const TlsOptions& files = collector.tls;
  if (files.ca.empty() && files.certificate.empty() && files.key.empty()) return absl::OkStatus();
  return InvalidArgument(
      "--otlp_tls_ca, --otlp_tls_cert and --otlp_tls_key need an --otlp_endpoint with https, not '%s'",
      collector.endpoint);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const OtlpCollector& collector, bool tls) {
  if (!tls) {
    BATON_RETURN_IF_ERROR(RefuseTls(collector));
    return grpc::InsecureChannelCredentials();
  }
  TlsOptions options = collector.tls;
  options.flags = "otlp_tls";
  return MakeTlsCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeCollectorChannel(const OtlpCollector& collector) {
  BATON_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(collector.endpoint));
  BATON_ASSIGN_OR_RETURN(const auto credentials, Credentials(collector, endpoint.tls));
  grpc::ChannelArguments arguments;
  // No keepalive pings, unlike between our own programs: collectors close connections that ping often.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(endpoint.target, credentials, arguments);
}

}  // namespace

void AddTracingFlags(Flags& flags, OtlpCollector& collector) {
  flags.Add("otlp_endpoint", &collector.endpoint,
            "OpenTelemetry collector that spans of sampled requests go to by OTLP/gRPC: host:port or http://host:port, "
            "https://host:port with TLS; empty: none are sent.");
  flags.Add("otlp_tls_ca", &collector.tls.ca,
            "PEM certificates that the collector's must be signed by; empty: the system's.");
  flags.Add("otlp_tls_cert", &collector.tls.certificate, "PEM certificate to show the collector.");
  flags.Add("otlp_tls_key", &collector.tls.key, "PEM private key of the certificate.");
}

SpanMetrics::SpanMetrics(Metrics& metrics)
    : exported(metrics.Counter("baton_trace_spans_total", "Spans by what became of them.", {{"outcome", "exported"}})),
      queue_full(
          metrics.Counter("baton_trace_spans_total", "Spans by what became of them.", {{"outcome", "queue_full"}})),
      failed(metrics.Counter("baton_trace_spans_total", "Spans by what became of them.", {{"outcome", "failed"}})) {}

absl::StatusOr<std::unique_ptr<OtlpExporter>> OtlpExporter::Start(Options options, const SpanMetrics& metrics,
                                                                  const Logger* log) {
  if (options.collector.endpoint.empty()) {
    BATON_RETURN_IF_ERROR(RefuseTls(options.collector));
    return std::unique_ptr<OtlpExporter>();
  }
  BATON_ASSIGN_OR_RETURN(const auto channel, MakeCollectorChannel(options.collector));
  return std::unique_ptr<OtlpExporter>(new OtlpExporter(std::move(options), channel, metrics, log));
}

OtlpExporter::OtlpExporter(Options options, const std::shared_ptr<grpc::Channel>& channel, const SpanMetrics& metrics,
                           const Logger* log)
    : options_(std::move(options)),
      metrics_(metrics),
      log_(log),
      stub_(TraceService::NewStub(channel)),
      thread_([this] { Loop(); }) {}

OtlpExporter::~OtlpExporter() { Stop(); }

void OtlpExporter::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (!stop_) flush_until_ = clock_.Now() + options_.flush_timeout;
    stop_ = true;
    if (!mutex_.AwaitWithTimeout(absl::Condition(&done_), absl::FromChrono(options_.flush_timeout)) && calling_) {
      calling_->TryCancel();
    }
  }
  if (thread_.joinable()) thread_.join();
}

void OtlpExporter::Add(Span span) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stop_ && queue_.size() < options_.queue_spans) {
      queue_.push_back(std::move(span));
      return;
    }
  }
  metrics_.queue_full.Increment();
}

bool OtlpExporter::OutOfTime() const { return stop_ && clock_.Now() >= flush_until_; }

void OtlpExporter::Loop() {
  const auto ready = [this]()
                         ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || queue_.size() >= options_.batch_spans; };
  while (true) {
    std::vector<Span> batch;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&ready), absl::FromChrono(options_.interval));
      if (queue_.empty() && !stop_) continue;
      if (queue_.empty() || OutOfTime()) {
        metrics_.failed.Increment(static_cast<double>(queue_.size()));
        queue_.clear();
        done_ = true;
        return;
      }
      const auto end = queue_.begin() + static_cast<ptrdiff_t>(std::min(queue_.size(), options_.batch_spans));
      batch.assign(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
      queue_.erase(queue_.begin(), end);
    }
    Send(std::move(batch));
  }
}

void OtlpExporter::Send(std::vector<Span> spans) {
  const Duration steady_to_unix =
      std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()) -
      clock_.Now().time_since_epoch();
  ExportTraceServiceRequest request;
  auto* resource_spans = request.add_resource_spans();
  auto* resource = resource_spans->mutable_resource();
  Set(resource->add_attributes(), "service.name", options_.service);
  Set(resource->add_attributes(), "service.version", std::string(kVersion));
  Set(resource->add_attributes(), "service.instance.id", options_.instance);
  auto* scope_spans = resource_spans->add_scope_spans();
  scope_spans->mutable_scope()->set_name("baton");
  scope_spans->mutable_scope()->set_version(kVersion);
  for (const Span& span : spans) ToProto(span, steady_to_unix, scope_spans->add_spans());

  grpc::Status status;
  Duration wait = kFirstWait;
  for (int i = 0; i < kTries; ++i, wait *= 2) {
    if (i > 0) {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stop_), absl::FromChrono(wait)) && OutOfTime()) break;
    }
    ExportTraceServiceResponse response;
    status = Export(request, &response);
    if (status.ok()) {
      const auto rejected = static_cast<double>(
          std::clamp<int64_t>(response.partial_success().rejected_spans(), 0, static_cast<int64_t>(spans.size())));
      metrics_.exported.Increment(static_cast<double>(spans.size()) - rejected);
      metrics_.failed.Increment(rejected);
      if (!healthy_) log_->Info("spans arrive again", {{"collector", options_.collector.endpoint}});
      healthy_ = true;
      return;
    }
    if (!Retryable(status.error_code())) break;
  }
  metrics_.failed.Increment(static_cast<double>(spans.size()));
  if (healthy_) {
    log_->Warning("spans cannot be sent",
                  {{"collector", options_.collector.endpoint}, {"error", status.error_message()}});
  }
  healthy_ = false;
}

grpc::Status OtlpExporter::Export(const ExportTraceServiceRequest& request, ExportTraceServiceResponse* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::microseconds>(options_.call_timeout));
  {
    absl::MutexLock lock(&mutex_);
    if (OutOfTime()) return grpc::Status(grpc::StatusCode::CANCELLED, "the process stops");
    calling_ = &context;
  }
  const grpc::Status status = stub_->Export(&context, request, response);
  absl::MutexLock lock(&mutex_);
  calling_ = nullptr;
  return status;
}

}  // namespace baton
