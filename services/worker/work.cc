#include "services/worker/work.h"

#include "common/base/status.h"
#include "common/rpc/convert.h"

namespace baton {
namespace {

constexpr double kMostWaitedSeconds = 1e6;

}  // namespace

absl::StatusOr<EngineRequest> ToEngineRequest(const internal::v1::Work& work, const WorkerRuntime& runtime) {
  if (work.worker_incarnation() != runtime.incarnation.value) {
    return Unavailable("the worker restarted: incarnation %016x is meant, this is %016x", work.worker_incarnation(),
                       runtime.incarnation.value);
  }
  const uint32_t vocab = runtime.runner->vocab_size();
  EngineRequest request;
  request.prompt.assign(work.prompt().begin(), work.prompt().end());
  if (request.prompt.empty()) return InvalidArgument("prompt: has no tokens");
  const auto outside = [&](TokenId id) { return id < 0 || static_cast<uint32_t>(id) >= vocab; };
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    if (outside(request.prompt[i])) {
      return InvalidArgument("prompt: token %d at position %d is outside the vocabulary of %d", request.prompt[i], i,
                             vocab);
    }
  }
  if (work.choices().empty() || work.choices_size() > kMaxChoices) {
    return InvalidArgument("choices: %d, must be 1 to %d", work.choices_size(), kMaxChoices);
  }
  for (const auto& choice : work.choices()) {
    ChoiceStart start{choice.index(), {choice.generated().begin(), choice.generated().end()}};
    for (const TokenId id : start.generated) {
      if (outside(id)) return InvalidArgument("generated: token %d is outside the vocabulary of %d", id, vocab);
    }
    request.choices.push_back(std::move(start));
  }
  request.sampling = FromProto(work.sampling());
  BATON_RETURN_IF_ERROR(Validate(request.sampling, vocab));
  request.priority = work.priority();
  if (!(work.waited_seconds() >= 0 && work.waited_seconds() <= kMostWaitedSeconds)) {
    return InvalidArgument("waited_seconds: %g, must be 0 to %g", work.waited_seconds(), kMostWaitedSeconds);
  }
  request.waited = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(work.waited_seconds()));
  request.cache_salt = work.cache_salt();
  return request;
}

void ToProto(std::span<const ChoiceToken> tokens, google::protobuf::RepeatedPtrField<internal::v1::Token>* out) {
  for (const ChoiceToken& token : tokens) ToProto(token.choice, token.token_index, token.token, out->Add());
}

internal::v1::EngineReport ToProto(const EngineTimings& timings) {
  internal::v1::EngineReport report;
  report.set_queue_seconds(Seconds(timings.queue));
  report.set_prefill_seconds(Seconds(timings.prefill));
  report.set_decode_seconds(Seconds(timings.decode));
  report.set_cached_tokens(timings.cached_tokens);
  report.set_preemptions(timings.preemptions);
  return report;
}

}  // namespace baton
