#include "services/worker/metrics.h"

#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr char kSlots[] = "baton_batch_slots";
constexpr char kSlotsHelp[] = "Batch slots of the engine by state.";
constexpr char kBlocks[] = "baton_kv_blocks";
constexpr char kBlocksHelp[] = "KV blocks by state; the five states add up to the pool.";
constexpr char kPreemptions[] = "baton_preemptions_total";
constexpr char kPreemptionsHelp[] = "Sequences that gave their blocks back to others, by how they get their KV back.";
constexpr char kSwapSlots[] = "baton_swap_blocks";
constexpr char kSwapSlotsHelp[] = "Blocks of the host swap area by state.";
constexpr char kSwapped[] = "baton_swapped_blocks_total";
constexpr char kSwappedHelp[] = "KV blocks copied to and from the host swap area.";
constexpr char kSwapBytes[] = "baton_swapped_bytes_total";
constexpr char kSwapBytesHelp[] = "Bytes copied to and from the host swap area.";
constexpr char kRequests[] = "baton_requests_total";
constexpr char kRequestsHelp[] = "Requests that ended, by how.";

}  // namespace

WorkerMetrics::WorkerMetrics(Metrics& metrics)
    : metrics_(metrics),
      step_seconds_(metrics.Histogram("baton_step_seconds", "Duration of an engine step.", TokenGapBuckets())),
      step_tokens_(metrics.Histogram("baton_step_tokens", "Tokens run in a step, prompt and decode.", BatchBuckets())),
      batch_size_(metrics.Histogram("baton_batch_size", "Sequences in a step.", BatchBuckets())),
      step_prediction_(metrics.Histogram("baton_step_prediction_ratio",
                                         "Duration of a step against what was predicted.",
                                         {0.25, 0.5, 0.75, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 4, 8})),
      queue_seconds_(metrics.Histogram("baton_request_queue_time_seconds",
                                       "Submission to first scheduled, engine clock.", FirstTokenBuckets())),
      prefill_seconds_(metrics.Histogram("baton_request_prefill_time_seconds",
                                         "First scheduled to first token, engine clock.", FirstTokenBuckets())),
      decode_seconds_(metrics.Histogram("baton_request_decode_time_seconds", "First token to end, engine clock.",
                                        RequestBuckets())),
      time_to_first_token_(metrics.Histogram("baton_time_to_first_token_seconds",
                                             "Arrival at this worker to its first token.", FirstTokenBuckets())),
      inter_token_latency_(metrics.Histogram("baton_inter_token_latency_seconds",
                                             "Gap between two tokens of a choice at this worker.", TokenGapBuckets())),
      running_(metrics.Gauge("baton_requests_running", "Sequences in the batch.")),
      waiting_(metrics.Gauge("baton_requests_waiting", "Requests waiting for the scheduler.")),
      waiting_tokens_(metrics.Gauge("baton_waiting_prompt_tokens", "Prompt tokens accepted and not yet run.")),
      slots_used_(metrics.Gauge(kSlots, kSlotsHelp, {{"state", "used"}})),
      slots_available_(metrics.Gauge(kSlots, kSlotsHelp, {{"state", "available"}})),
      free_(metrics.Gauge(kBlocks, kBlocksHelp, {{"state", "free"}})),
      cached_(metrics.Gauge(kBlocks, kBlocksHelp, {{"state", "cached"}})),
      leased_(metrics.Gauge(kBlocks, kBlocksHelp, {{"state", "leased"}})),
      owned_(metrics.Gauge(kBlocks, kBlocksHelp, {{"state", "owned"}})),
      quarantined_(metrics.Gauge(kBlocks, kBlocksHelp, {{"state", "quarantined"}})),
      usage_(metrics.Gauge("baton_kv_usage_ratio", "Share of KV blocks that are neither free nor cached.")),
      block_bytes_(metrics.Gauge("baton_kv_block_bytes", "Bytes of one KV block.")),
      transport_bandwidth_(metrics.Gauge("baton_kv_transport_probe_bytes_per_second",
                                         "Put bandwidth of the transport to itself, measured at start.")),
      ready_(metrics.Gauge("baton_ready", "1 while the worker takes work.")),
      stalled_(metrics.Gauge("baton_engine_stalled_seconds",
                             "Time since the step loop last made progress while it has work; 0 when idle.")),
      load_seconds_(metrics.Gauge("baton_model_load_seconds", "Time that loading the model took; 0 while it loads.")),
      peak_flops_(metrics.Gauge("baton_engine_peak_flops_per_second",
                                "Ceiling of computing, measured at start; 0 when not measured.")),
      peak_bytes_(metrics.Gauge("baton_engine_peak_bytes_per_second",
                                "Ceiling of reading the weights, measured at start; 0 when not measured.")),
      itl_target_(metrics.Gauge("baton_step_target_seconds", "--max_itl_ms; 0: no target.")),
      prompt_budget_(metrics.Gauge("baton_step_prompt_budget_tokens",
                                   "Prompt tokens that the target allowed in the last step with streams and prompts.")),
      swap_used_(metrics.Gauge(kSwapSlots, kSwapSlotsHelp, {{"state", "used"}})),
      swap_free_(metrics.Gauge(kSwapSlots, kSwapSlotsHelp, {{"state", "free"}})),
      prompt_tokens_(metrics.Counter("baton_prompt_tokens_total", "Prompt tokens run through the model.")),
      generated_tokens_(metrics.Counter("baton_generation_tokens_total", "Tokens sampled.")),
      cached_tokens_(metrics.Counter("baton_cached_prompt_tokens_total", "Prompt tokens taken from the prefix cache.")),
      prefix_queries_(metrics.Counter("baton_prefix_cache_queries_total", "Full prompt blocks looked up.")),
      prefix_hits_(metrics.Counter("baton_prefix_cache_hits_total", "Full prompt blocks found.")),
      flops_(
          metrics.Counter("baton_engine_flops_total", "Floating-point operations of the model's matrices, achieved.")),
      bytes_(metrics.Counter("baton_engine_bytes_total", "Bytes of weights and KV read by the engine, achieved.")),
      swap_preemptions_(metrics.Counter(kPreemptions, kPreemptionsHelp, {{"kind", "swap"}})),
      recompute_preemptions_(metrics.Counter(kPreemptions, kPreemptionsHelp, {{"kind", "recompute"}})),
      swapped_out_(metrics.Counter(kSwapped, kSwappedHelp, {{"direction", "out"}})),
      swapped_in_(metrics.Counter(kSwapped, kSwappedHelp, {{"direction", "in"}})),
      swap_bytes_out_(metrics.Counter(kSwapBytes, kSwapBytesHelp, {{"direction", "out"}})),
      swap_bytes_in_(metrics.Counter(kSwapBytes, kSwapBytesHelp, {{"direction", "in"}})),
      late_steps_(
          metrics.Counter("baton_steps_over_target_total", "Steps with streams that took longer than the target.")) {
  for (int code = 0; code < kStatusCodes; ++code) {
    metrics.Counter(kRequests, kRequestsHelp, {{"reason", CodeName(static_cast<absl::StatusCode>(code))}});
  }
}

void WorkerMetrics::Attach(const std::shared_ptr<WorkerRuntime>& runtime) {
  runtime_ = runtime;
  ready_.Set(1);
  itl_target_.Set(Seconds(runtime->max_itl));
  block_bytes_.Set(static_cast<double>(runtime->layout.BytesPerBlock()));
  load_seconds_.Set(Seconds(runtime->load_time));
  peak_flops_.Set(runtime->peak.flops_per_second);
  peak_bytes_.Set(runtime->peak.bytes_per_second);
  metrics_
      .Gauge("baton_model_info", "1; what is served, as labels.",
             {{"architecture", runtime->model.architecture},
              {"engine", runtime->engine_name},
              {"weights", runtime->weights_format},
              {"kv_dtype", std::string(DTypeName(runtime->layout.dtype))}})
      .Set(1);
  transport_bandwidth_.Set(runtime->probed_bytes_per_second);
  metrics_.OnScrape([this] { Collect(); });
}

void WorkerMetrics::OnStep(const StepReport& report) {
  step_seconds_.Observe(Seconds(report.duration));
  step_tokens_.Observe(report.tokens);
  batch_size_.Observe(report.sequences);
  if (report.predicted > Duration::zero())
    step_prediction_.Observe(Seconds(report.duration) / Seconds(report.predicted));
  if (report.prompt_budget) prompt_budget_.Set(*report.prompt_budget);
  if (report.late) late_steps_.Increment();
}

void WorkerMetrics::OnRequestEnd(const std::string& reason) {
  metrics_.Counter(kRequests, kRequestsHelp, {{"reason", reason}}).Increment();
}

void WorkerMetrics::OnEngineTimings(const EngineTimings& timings, bool prefilled, bool decoded) {
  queue_seconds_.Observe(Seconds(timings.queue));
  if (prefilled) prefill_seconds_.Observe(Seconds(timings.prefill));
  if (decoded) decode_seconds_.Observe(Seconds(timings.decode));
  cached_tokens_.Increment(timings.cached_tokens);
}

void WorkerMetrics::Collect() {
  const EngineLoad load = runtime_->engine->load();
  const BlockCounts blocks = runtime_->pool->counts();
  running_.Set(load.running_sequences);
  waiting_.Set(load.waiting_requests);
  waiting_tokens_.Set(static_cast<double>(load.waiting_prompt_tokens));
  const double slots = runtime_->runner->max_batch();
  slots_used_.Set(load.running_sequences);
  slots_available_.Set(slots - load.running_sequences);
  free_.Set(blocks.free);
  cached_.Set(blocks.cached);
  leased_.Set(blocks.leased);
  owned_.Set(blocks.owned);
  quarantined_.Set(blocks.quarantined);
  swap_used_.Set(load.swap_slots_used);
  swap_free_.Set(runtime_->runner->swap_slots() - load.swap_slots_used);
  stalled_.Set(Seconds(runtime_->engine->stalled_for()));
  usage_.Set(1.0 - double{1} * blocks.available() / blocks.total());

  Advance(prompt_tokens_, load.prompt_tokens, last_.prompt_tokens);
  Advance(generated_tokens_, load.generated_tokens, last_.generated_tokens);
  Advance(prefix_queries_, load.prefix_queries, last_.prefix_queries);
  Advance(prefix_hits_, load.prefix_hits, last_.prefix_hits);
  Advance(swap_preemptions_, load.swap_preemptions, last_.swap_preemptions);
  Advance(recompute_preemptions_, load.preemptions - load.swap_preemptions, last_.preemptions - last_.swap_preemptions);
  const uint64_t block_bytes = runtime_->layout.BytesPerBlock();
  Advance(swapped_out_, load.swapped_out_blocks, last_.swapped_out_blocks);
  Advance(swapped_in_, load.swapped_in_blocks, last_.swapped_in_blocks);
  Advance(swap_bytes_out_, load.swapped_out_blocks * block_bytes, last_.swapped_out_blocks * block_bytes);
  Advance(swap_bytes_in_, load.swapped_in_blocks * block_bytes, last_.swapped_in_blocks * block_bytes);
  Advance(flops_, load.flops, last_.flops);
  Advance(bytes_, load.bytes, last_.bytes);
  last_ = load;
}

}  // namespace baton
