#include "common/engine/batching_simulation.h"

#include <algorithm>
#include <memory>

#include "common/engine/scheduler.h"

namespace baton {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(1);

std::unique_ptr<ActiveRequest> MakeActive(uint64_t id, const SimulatedRequest& request) {
  auto active = std::make_unique<ActiveRequest>();
  active->spec.id = id;
  active->spec.prompt = {0};
  active->spec.choices = {ChoiceStart{}};
  active->spec.sampling.max_tokens = request.tokens;
  active->spec.use_prefix_cache = false;
  active->submitted = TimePoint(request.arrival * kStep);
  return active;
}

void Summarize(std::span<const SimulatedRequest> requests, uint32_t slots, BatchingTimeline* timeline) {
  for (size_t i = 0; i < requests.size(); ++i) {
    timeline->slots_used += requests[i].tokens;
    timeline->mean_wait += timeline->started[i] - requests[i].arrival;
    timeline->mean_latency += timeline->ended[i] - requests[i].arrival;
  }
  if (requests.empty()) return;
  const auto all = static_cast<uint32_t>(timeline->steps.size() * slots);
  timeline->slots_wasted = all - timeline->slots_used;
  timeline->used_share = static_cast<double>(timeline->slots_used) / all;
  timeline->tokens_per_step = static_cast<double>(timeline->slots_used) / static_cast<double>(timeline->steps.size());
  timeline->mean_wait /= static_cast<double>(requests.size());
  timeline->mean_latency /= static_cast<double>(requests.size());
}

// The slot a request had in the step before, else the first that is empty.
int32_t& SlotFor(int32_t request, const BatchingTimeline& timeline, std::vector<int32_t>* row) {
  if (timeline.steps.size() > 0) {
    const auto& before = timeline.steps.back();
    const auto same = std::find(before.begin(), before.end(), request);
    if (same != before.end()) return (*row)[static_cast<size_t>(same - before.begin())];
  }
  return *std::find(row->begin(), row->end(), BatchingTimeline::kEmpty);
}

}  // namespace

BatchingTimeline SimulateBatching(BatchingMode mode, uint32_t slots, uint32_t batch_timeout,
                                  std::span<const SimulatedRequest> requests) {
  SchedulerOptions options;
  options.max_batch = slots;
  options.max_step_tokens = options.step_limit = slots;
  options.batching = mode;
  options.batch_timeout = batch_timeout * kStep;
  uint32_t blocks = 1;
  for (const SimulatedRequest& request : requests) blocks += request.tokens / options.block_size + 2;
  BlockPool pool(blocks);
  Scheduler scheduler(options, &pool);

  BatchingTimeline timeline;
  timeline.started.resize(requests.size());
  timeline.ended.resize(requests.size());
  std::vector<std::unique_ptr<ActiveRequest>> active(requests.size());
  size_t arrived = 0;
  for (uint32_t step = 0; arrived < requests.size() || scheduler.HasWork(); ++step) {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].arrival != step) continue;
      active[i] = MakeActive(i, requests[i]);
      scheduler.Add(active[i].get());
      ++arrived;
    }
    std::vector<int32_t> row(slots, BatchingTimeline::kEmpty);
    const StepPlan& plan = scheduler.Schedule(TimePoint(step * kStep));
    for (const ActiveRequest* request : plan.started) timeline.started[request->spec.id] = step;
    // Who ran before keeps its slot, so those are placed first.
    for (const bool started : {false, true}) {
      for (const ScheduledRun& run : plan.runs) {
        const auto id = static_cast<int32_t>(run.sequence->request->spec.id);
        if ((run.begin == 0) == started) SlotFor(id, timeline, &row) = id;
      }
    }
    for (const ScheduledRun& run : plan.runs) {
      ActiveRequest* request = run.sequence->request;
      scheduler.Advance(run);
      scheduler.Append(run.sequence, 0);
      if (run.end < request->spec.sampling.max_tokens) continue;
      timeline.ended[request->spec.id] = step + 1;
      scheduler.Remove(request);
    }
    timeline.steps.push_back(std::move(row));
  }
  Summarize(requests, slots, &timeline);
  return timeline;
}

}  // namespace baton
