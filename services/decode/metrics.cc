#include "services/decode/metrics.h"

namespace baton {
namespace {

prometheus::Counter& Outcome(Metrics& metrics, const char* outcome) {
  return metrics.Counter("baton_handoffs_total", "Handoffs that ended, by outcome.", {{"outcome", outcome}});
}

}  // namespace

DecodeMetrics::DecodeMetrics(Metrics& metrics, WorkerMetrics& worker)
    : metrics_(metrics),
      worker_(worker),
      committed_(Outcome(metrics, "committed")),
      discarded_(Outcome(metrics, "discarded")),
      refused_(Outcome(metrics, "refused")),
      expired_(Outcome(metrics, "expired")),
      cancelled_(Outcome(metrics, "cancelled")),
      fenced_(Outcome(metrics, "fenced")),
      writer_lost_(Outcome(metrics, "writer_lost")),
      mismatches_(metrics.Counter("baton_kv_checksum_mismatches_total",
                                  "Commits refused because a block held other bytes than were sent.")),
      late_writes_(
          metrics.Counter("baton_kv_late_writes_refused_total", "Writes refused because their lease was over.")),
      open_leases_(metrics.Gauge("baton_leases_open", "Leases that have not ended.")),
      leased_limit_(metrics.Gauge("baton_kv_blocks_limit",
                                  "Most KV blocks in a state; the worker restarts above that "
                                  "of quarantined ones.",
                                  {{"state", "leased"}})),
      quarantined_limit_(metrics.Gauge("baton_kv_blocks_limit",
                                       "Most KV blocks in a state; the worker restarts above "
                                       "that of quarantined ones.",
                                       {{"state", "quarantined"}})) {}

void DecodeMetrics::Attach(std::shared_ptr<HandoffReceiver> receiver, double max_quarantined_blocks) {
  leased_limit_.Set(receiver->max_lease_blocks());
  quarantined_limit_.Set(max_quarantined_blocks);
  receiver_ = std::move(receiver);
  metrics_.OnScrape([this] { Collect(); });
}

void DecodeMetrics::Collect() {
  const HandoffCounts counts = receiver_->counts();
  Advance(committed_, counts.committed, last_.committed);
  Advance(discarded_, counts.discarded, last_.discarded);
  Advance(refused_, counts.refused, last_.refused);
  Advance(expired_, counts.expired, last_.expired);
  Advance(cancelled_, counts.cancelled, last_.cancelled);
  Advance(fenced_, counts.fenced, last_.fenced);
  Advance(writer_lost_, counts.writer_lost, last_.writer_lost);
  Advance(mismatches_, counts.checksum_mismatches, last_.checksum_mismatches);
  Advance(late_writes_, counts.late_writes_refused, last_.late_writes_refused);
  open_leases_.Set(receiver_->open_leases());
  last_ = counts;
}

}  // namespace baton
