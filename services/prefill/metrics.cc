#include "services/prefill/metrics.h"

namespace baton {

const char* HandoffOutcomeName(HandoffOutcome outcome) {
  switch (outcome) {
    case HandoffOutcome::kCommitted:
      return "committed";
    case HandoffOutcome::kDiscarded:
      return "discarded";
    case HandoffOutcome::kRefused:
      return "refused";
    case HandoffOutcome::kFenced:
      return "fenced";
    case HandoffOutcome::kFailed:
      return "failed";
  }
  return "failed";
}

PrefillMetrics::PrefillMetrics(Metrics& metrics, WorkerMetrics& worker, const std::string& transport)
    : worker_(worker),
      transfer_seconds_(metrics.Histogram("baton_kv_transfer_seconds", "Time in which puts of a handoff were under way.",
                                          TransferBuckets(), {{"transport", transport}})),
      tail_seconds_(metrics.Histogram("baton_kv_transfer_tail_seconds",
                                      "End of prefill to the decode worker's answer: what the transfer adds.",
                                      TransferBuckets(), {{"transport", transport}})),
      bytes_(metrics.Counter("baton_kv_transfer_bytes_total", "KV bytes put.", {{"transport", transport}})),
      blocks_(metrics.Counter("baton_kv_transfer_blocks_total", "KV blocks put.", {{"transport", transport}})),
      failures_(metrics.Counter("baton_kv_transfer_failures_total", "Handoffs whose transfer or commit failed.",
                                {{"transport", transport}})) {
  for (HandoffOutcome outcome : {HandoffOutcome::kCommitted, HandoffOutcome::kDiscarded, HandoffOutcome::kRefused,
                                 HandoffOutcome::kFenced, HandoffOutcome::kFailed}) {
    outcomes_[static_cast<int>(outcome)] = &metrics.Counter("baton_handoffs_total", "Handoffs that ended, by outcome.",
                                                            {{"outcome", HandoffOutcomeName(outcome)}});
  }
}

void PrefillMetrics::OnHandoff(const HandoffResult& result) {
  outcomes_[static_cast<int>(result.outcome)]->Increment();
  bytes_.Increment(static_cast<double>(result.bytes));
  blocks_.Increment(static_cast<double>(result.blocks));
  if (result.blocks > 0) transfer_seconds_.Observe(Seconds(result.transfer));
  if (result.outcome == HandoffOutcome::kCommitted) tail_seconds_.Observe(Seconds(result.tail));
  if (result.outcome == HandoffOutcome::kRefused || result.outcome == HandoffOutcome::kFailed) failures_.Increment();
}

uint64_t PrefillMetrics::handoffs(HandoffOutcome outcome) const {
  return static_cast<uint64_t>(outcomes_[static_cast<int>(outcome)]->Value());
}

}  // namespace baton
