#include "services/worker/call_trace.h"

namespace baton {

CallTrace::CallTrace(SpanSink* spans, const internal::v1::Work& work, std::string name, TimePoint arrived) {
  const auto prompt = ParseTraceContext(work.traceparent(), work.tracestate());
  if (!prompt) return;
  trace_id_ = prompt->trace_id_hex();
  if (!spans || !prompt->sampled) return;
  spans_ = spans;
  call_ = ChildSpan(*prompt, std::move(name), arrived, arrived);
  call_.kind = Span::Kind::kServer;
  call_.attributes = {{"baton.request_id", work.request_id()}, {"baton.prompt.tokens", int64_t{work.prompt_size()}}};
}

void CallTrace::OnStarted(const char* queue_name, TimePoint queued, TimePoint now, uint32_t cached_tokens) {
  Add(queue_name, queued, now);
  started_ = last_chunk_ = now;
  tokens_done_ = cached_tokens;
}

void CallTrace::OnProgress(TimePoint now, uint32_t tokens_done) {
  if (!recorded() || tokens_done <= tokens_done_) return;  // what the prefix cache held
  Add("prefill_chunk", last_chunk_, now,
      {{"baton.chunk.tokens", int64_t{tokens_done - tokens_done_}}, {"baton.chunk.end", int64_t{tokens_done}}});
  last_chunk_ = now;
  tokens_done_ = tokens_done;
}

void CallTrace::Add(std::string name, TimePoint start, TimePoint end, Attributes attributes) {
  if (recorded()) AddTo(call_.context, std::move(name), start, end, std::move(attributes));
}

TraceContext CallTrace::AddGroup(std::string name, TimePoint start, TimePoint end, Attributes attributes) {
  if (!recorded()) return {};
  Span span = ChildSpan(call_.context, std::move(name), start, end);
  span.attributes = std::move(attributes);
  TraceContext group = span.context;
  spans_->Add(std::move(span));
  return group;
}

void CallTrace::AddTo(const TraceContext& parent, std::string name, TimePoint start, TimePoint end,
                      Attributes attributes) {
  if (!recorded()) return;
  Span span = ChildSpan(parent, std::move(name), start, end);
  span.attributes = std::move(attributes);
  spans_->Add(std::move(span));
}

void CallTrace::End(TimePoint now, const std::string& error, Attributes attributes) {
  if (!recorded()) return;
  call_.end = now;
  call_.error = error;
  for (auto& attribute : attributes) call_.attributes.push_back(std::move(attribute));
  spans_->Add(std::move(call_));
  spans_ = nullptr;
}

}  // namespace baton
