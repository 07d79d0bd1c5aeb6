#include "common/rpc/otlp_exporter.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <optional>

#include "absl/synchronization/notification.h"

namespace baton {
namespace {

using opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
using opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
using opentelemetry::proto::collector::trace::v1::TraceService;

class Collector final : public TraceService::Service {
 public:
  Collector() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Collector() override {
    Resume();
    server_->Shutdown();
  }

  grpc::Status Export(grpc::ServerContext*, const ExportTraceServiceRequest* request,
                      ExportTraceServiceResponse* response) override {
    absl::MutexLock lock(&mutex_);
    ++calls_;
    mutex_.Await(absl::Condition(
        +[](bool* hang) { return !*hang; }, &hang_));
    if (!answer_.ok()) return answer_;
    requests_.push_back(*request);
    response->mutable_partial_success()->set_rejected_spans(rejected_);
    return grpc::Status::OK;
  }

  void Hang() {
    absl::MutexLock lock(&mutex_);
    hang_ = true;
  }
  void Resume() {
    absl::MutexLock lock(&mutex_);
    hang_ = false;
  }
  void Answer(grpc::Status status, int64_t rejected = 0) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(status);
    rejected_ = rejected;
  }
  void AwaitCall() {
    absl::MutexLock lock(&mutex_);
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(
                                            +[](int* calls) { return *calls > 0; }, &calls_),
                                        absl::Seconds(60)));
  }
  std::vector<ExportTraceServiceRequest> requests() {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int port_ = 0;
  absl::Mutex mutex_;
  int calls_ = 0;
  bool hang_ = false;
  grpc::Status answer_;
  int64_t rejected_ = 0;
  std::vector<ExportTraceServiceRequest> requests_;
  std::unique_ptr<grpc::Server> server_;
};

class OtlpExporterTest : public testing::Test {
 protected:
  std::unique_ptr<OtlpExporter> Start(const std::string& endpoint, size_t queue = 100,
                                      Duration flush = std::chrono::seconds(60)) {
    auto exporter = OtlpExporter::Start({.collector = {.endpoint = endpoint},
                                         .service = "baton-test",
                                         .instance = "1",
                                         .queue_spans = queue,
                                         .batch_spans = 4,
                                         .interval = std::chrono::milliseconds(5),
                                         .call_timeout = std::chrono::seconds(60),
                                         .flush_timeout = flush},
                                        counts_, &log_);
    EXPECT_TRUE(exporter.ok());
    return *std::move(exporter);
  }
  static Span MakeSpan() {
    const TimePoint now = SteadyClock().Now();
    TraceContext parent = TraceContext::MakeRoot().Child();
    parent.sampled = true;
    parent.state = "vendor=1";
    return ChildSpan(parent, "prefill", now, now + std::chrono::milliseconds(7));
  }
  double dropped() const { return counts_.queue_full.Value() + counts_.failed.Value(); }

  Metrics metrics_{MetricLabels{}};
  SpanMetrics counts_{metrics_};
  Logger log_{"test", LogLevel::kError};
};

TEST_F(OtlpExporterTest, SpansArriveWithTheirIdsTimesAndAttributes) {
  Collector collector;
  Span span = MakeSpan();
  span.kind = Span::Kind::kServer;
  span.error = "it broke";
  span.attributes = {{"text", std::string("a")}, {"count", int64_t{3}}, {"share", 0.5}, {"yes", true}};
  {
    const auto exporter = Start("http://" + collector.address());
    exporter->Add(span);
  }
  const auto requests = collector.requests();
  ASSERT_EQ(requests.size(), 1u);
  const auto& resource = requests[0].resource_spans(0);
  EXPECT_EQ(resource.resource().attributes(0).key(), "service.name");
  EXPECT_EQ(resource.resource().attributes(0).value().string_value(), "baton-test");
  const auto& sent = resource.scope_spans(0).spans(0);
  EXPECT_EQ(sent.trace_id(), std::string(span.context.trace_id.begin(), span.context.trace_id.end()));
  EXPECT_EQ(sent.span_id(), std::string(span.context.span_id.begin(), span.context.span_id.end()));
  EXPECT_EQ(sent.parent_span_id(), std::string(span.parent.begin(), span.parent.end()));
  EXPECT_EQ(sent.trace_state(), "vendor=1");
  EXPECT_EQ(sent.end_time_unix_nano() - sent.start_time_unix_nano(), 7'000'000u);
  EXPECT_NEAR(static_cast<double>(sent.start_time_unix_nano()) * 1e-9, WallTimeSeconds(), 600);
  EXPECT_EQ(sent.attributes(1).value().int_value(), 3);
  EXPECT_EQ(sent.attributes(2).value().double_value(), 0.5);
  EXPECT_TRUE(sent.attributes(3).value().bool_value());
  EXPECT_EQ(sent.status().message(), "it broke");
  EXPECT_EQ(counts_.exported.Value(), 1);
}

TEST_F(OtlpExporterTest, StoppingSendsWhatIsQueuedInBatches) {
  Collector collector;
  {
    const auto exporter = Start(collector.address());
    for (int i = 0; i < 30; ++i) exporter->Add(MakeSpan());
  }
  int spans = 0;
  for (const auto& request : collector.requests()) {
    const int size = request.resource_spans(0).scope_spans(0).spans_size();
    EXPECT_LE(size, 4);
    spans += size;
  }
  EXPECT_EQ(spans, 30);
  EXPECT_EQ(counts_.exported.Value(), 30);
}

TEST_F(OtlpExporterTest, ACollectorThatHangsCostsSpansAndNeitherMemoryNorTheEnd) {
  Collector collector;
  collector.Hang();
  auto exporter = Start(collector.address(), 8, std::chrono::milliseconds(50));
  exporter->Add(MakeSpan());
  collector.AwaitCall();  // one batch is on its way and stays there
  for (int i = 0; i < 100; ++i) exporter->Add(MakeSpan());
  EXPECT_EQ(counts_.queue_full.Value(), 92);
  exporter.reset();  // although the call would take a minute
  EXPECT_EQ(dropped(), 101);
  EXPECT_EQ(counts_.exported.Value(), 0);
}

TEST_F(OtlpExporterTest, ACollectorThatIsNotThereCostsSpansOnly) {
  {
    const auto exporter = Start("127.0.0.1:1");
    for (int i = 0; i < 10; ++i) exporter->Add(MakeSpan());
  }
  EXPECT_EQ(counts_.failed.Value(), 10);
}

TEST_F(OtlpExporterTest, RefusedSpansCountAsFailed) {
  Collector collector;
  collector.Answer(grpc::Status::OK, 1);
  {
    const auto exporter = Start(collector.address());
    for (int i = 0; i < 4; ++i) exporter->Add(MakeSpan());
  }
  EXPECT_EQ(counts_.exported.Value() + counts_.failed.Value(), 4);
  EXPECT_GE(counts_.failed.Value(), 1);
  collector.Answer(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no"));
  { Start(collector.address())->Add(MakeSpan()); }
  EXPECT_EQ(counts_.exported.Value() + counts_.failed.Value(), 5);
}

TEST_F(OtlpExporterTest, NoEndpointMeansNoExporter) { EXPECT_EQ(*OtlpExporter::Start({}, counts_, &log_), nullptr); }

TEST_F(OtlpExporterTest, RefusesEndpointsThatAreNoHostAndPort) {
  for (const char* endpoint : {"collector", ":4317", "collector:", "collector:99999", "ftp://collector:4317",
                               "https://", "http://a:1/v1/traces", "https://a:1/v1/traces"}) {
    const auto exporter = OtlpExporter::Start({.collector = {.endpoint = endpoint}}, counts_, &log_);
    EXPECT_EQ(exporter.status().code(), absl::StatusCode::kInvalidArgument) << endpoint;
    EXPECT_NE(std::string(exporter.status().message()).find(endpoint), std::string::npos) << exporter.status();
  }
}

TEST_F(OtlpExporterTest, RefusesTlsFilesThatCannotBeMeant) {
  const auto start = [&](OtlpCollector collector) {
    return OtlpExporter::Start({.collector = std::move(collector)}, counts_, &log_).status();
  };
  // A certificate would be sent nowhere, and the spans in plain text.
  EXPECT_EQ(start({"http://a:1", {.ca = "ca.pem"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({"", {.ca = "ca.pem"}}).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status no_certificate = start({"https://a:1", {.ca = "/etc/passwd"}});
  EXPECT_EQ(no_certificate.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(no_certificate.message()).find("--otlp_tls_ca: /etc/passwd"), std::string::npos)
      << no_certificate;
  EXPECT_EQ(start({"a:1", {.certificate = "a.pem", .key = "a.key"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({"https://a:1", {.certificate = "a.pem"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({"https://a:1", {.key = "a.key"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({"https://a:1", {.ca = "/none/ca.pem"}}).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace baton
