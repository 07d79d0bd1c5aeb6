#pragma once

// A request's place in its trace, and the spans that the router makes of its time account.
//
//   [client's span] -- request -- prompt (one a prompt) -- tokenize, queue, ... finish; reserve
//                                   `-- what workers report
//
// The stages stand one after the other as the account has them, so that their durations are its numbers; detokenizing,
// which is spread over the time after the first token, stands as one piece behind decode.

#include <string>

#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/telemetry/span.h"

namespace baton {

struct RequestTrace {
  TraceContext context;       // of the request's span
  SpanId parent{};            // the client's; zero: none
  SpanSink* spans = nullptr;  // null: the router sends none, and `context` is the client's own span
  bool recorded() const { return spans != nullptr && context.sampled; }
};

// From a client's headers; each may be empty. A request without a valid traceparent begins a trace, sampled by
// `sample_ratio` if spans are sent at all; one with it keeps its sampled flag.
RequestTrace StartTrace(std::string_view traceparent, std::string_view tracestate, SpanSink* spans,
                        double sample_ratio);

// `prompt`: the prompt's span, whose id workers were told. `error`: empty when it ended well.
void AddPromptSpans(const RequestTrace& trace, const TraceContext& prompt, const v1::PromptReport& report,
                    TimePoint arrived, TimePoint reserve_sent, const std::string& error);

}  // namespace baton
