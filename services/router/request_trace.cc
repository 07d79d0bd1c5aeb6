#include "services/router/request_trace.h"

#include "services/router/metrics.h"

namespace baton {
namespace {

Duration FromSeconds(double seconds) { return std::chrono::round<Duration>(std::chrono::duration<double>(seconds)); }

}  // namespace

RequestTrace StartTrace(std::string_view traceparent, std::string_view tracestate, SpanSink* spans,
                        double sample_ratio) {
  RequestTrace trace;
  trace.spans = spans;
  if (auto client = ParseTraceContext(traceparent, tracestate)) {
    trace.parent = client->span_id;
    trace.context = spans ? client->Child() : *std::move(client);
    return trace;
  }
  trace.context = TraceContext::MakeRoot().Child();
  trace.context.sampled = spans != nullptr && SampledByRatio(trace.context.trace_id, sample_ratio);
  return trace;
}

void AddPromptSpans(const RequestTrace& trace, const TraceContext& prompt, const v1::PromptReport& report,
                    TimePoint arrived, TimePoint reserve_sent, const std::string& error) {
  if (!trace.recorded()) return;
  const v1::Timings& timings = report.timings();
  TimePoint at = arrived;
  for (const Stage& stage : kStages) {
    const Duration length = FromSeconds((timings.*stage.seconds)());
    if (length > Duration::zero()) trace.spans->Add(ChildSpan(prompt, stage.name, at, at + length));
    at += length;
  }
  if (timings.reserve_seconds() > 0) {
    trace.spans->Add(ChildSpan(prompt, "reserve", reserve_sent, reserve_sent + FromSeconds(timings.reserve_seconds())));
  }

  Span span;
  span.context = prompt;
  span.parent = trace.context.span_id;
  span.name = "prompt";
  span.start = arrived;
  span.end = arrived + FromSeconds(timings.total_seconds());
  span.error = error;
  const v1::Usage& usage = report.usage();
  const v1::Route& route = report.route();
  span.attributes = {{"baton.prompt.index", int64_t{report.prompt_index()}},
                     {"gen_ai.usage.input_tokens", int64_t{usage.prompt_tokens()}},
                     {"gen_ai.usage.cache_read.input_tokens", int64_t{usage.cached_prompt_tokens()}},
                     {"gen_ai.usage.output_tokens", int64_t{usage.completion_tokens()}},
                     {"baton.time_to_first_token", timings.time_to_first_token_seconds()},
                     {"baton.pairing.reason", route.reason()},
                     {"baton.pairing.attempts", int64_t{route.attempts()}},
                     {"baton.worker.prefill", route.prefill_worker()},
                     {"baton.worker.decode", route.decode_worker()},
                     {"baton.kv.bytes", static_cast<int64_t>(route.kv_bytes())},
                     {"baton.kv.transport", route.kv_transport()}};
  trace.spans->Add(std::move(span));
}

}  // namespace baton
