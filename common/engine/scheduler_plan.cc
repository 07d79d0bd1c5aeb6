// Scheduler: what a step runs.

#include <algorithm>

#include "common/base/status.h"
#include "common/engine/scheduler.h"

namespace baton {
namespace {

// With more running sequences than batch slots, none waits longer than this for its turn.
constexpr uint64_t kMaxIdleSteps = 64;
// Sequences that may start before an earlier one that lacks blocks, until room is made for it by preemption.
constexpr uint32_t kMaxPassedOver = 64;

uint32_t SlotsOf(const Sequence& sequence) {
  const ActiveRequest& request = *sequence.request;
  const bool will_fork = !request.forked && request.spec.work != WorkKind::kPrefill;
  return will_fork ? std::max<uint32_t>(request.unfinished, 1) : 1;
}

// Somebody waits for its next token.
bool IsStream(const Sequence& sequence) {
  return sequence.Remaining() == 1 && sequence.tokens.size() > sequence.request->spec.prompt.size();
}

}  // namespace

const StepPlan& Scheduler::Schedule(TimePoint now) {
  ++step_;
  plan_.copies.clear();
  plan_.runs.clear();
  plan_.started.clear();
  plan_.tokens = 0;
  plan_.shape = {};
  plan_.prompt_budget.reset();
  tokens_left_ = options_.max_step_tokens;
  slots_left_ = options_.max_batch;
  prompt_in_step_ = false;
  if (FixedBatches()) {
    FormBatch(now);
  } else {
    AdmitPassedOver();
  }
  preempted_ = false;
  order_.clear();
  for (Sequence* sequence : running_) {
    if (FixedBatches() && !sequence->in_batch) break;  // members sort before all others
    order_.push_back(sequence);
  }
  totals_.visits += order_.size();
  if (order_.size() > std::min(slots_left_, tokens_left_)) {
    std::stable_partition(order_.begin(), order_.end(),
                          [this](const Sequence* sequence) { return step_ - sequence->last_step > kMaxIdleSteps; });
  }
  ScheduleDecodes();
  ScheduleChunks();
  ScheduleWaiting();
  return plan_;
}

// Starts the next batch when the last one is over and the next is due: in order, what waits and handoffs, as many as
// there are slots.
void Scheduler::FormBatch(TimePoint now) {
  const auto has_member = [](const auto& sequences) { return !sequences.empty() && (*sequences.begin())->in_batch; };
  if (has_member(running_) || has_member(waiting_) || !BatchIsDue(now)) return;
  const std::vector<Sequence*> handoffs(running_.begin(), running_.end());
  AdmitPassedOver();
  uint32_t used = 0;
  for (auto member = running_.begin(); member != running_.end() && (*member)->in_batch; ++member) {
    used += SlotsOf(**member);
  }
  bool admits = true;
  for (auto handoff = handoffs.begin(); true;) {
    while (handoff != handoffs.end() && (*handoff)->phase != SequencePhase::kRunning) ++handoff;  // preempted just now
    ++totals_.visits;
    Sequence* next = handoff == handoffs.end() ? nullptr : *handoff;
    if (admits && !waiting_.empty() && (next == nullptr || ByOrder()(*waiting_.begin(), next))) {
      next = *waiting_.begin();
    }
    if (next == nullptr || (used > 0 && used + SlotsOf(*next) > options_.max_batch)) return;
    const uint32_t slots = SlotsOf(*next);
    if (next->phase == SequencePhase::kWaiting) {
      admits = TryAdmit(next);
      if (!admits) continue;
    } else {
      running_.erase(next);
      next->in_batch = true;
      running_.insert(next);
      ++handoff;
    }
    used += slots;
  }
}

// Looks at no more candidates than a batch has slots.
bool Scheduler::BatchIsDue(TimePoint now) {
  if (options_.batching == BatchingMode::kStatic) return true;
  uint32_t slots = 0;
  for (const auto* candidates : {&waiting_, &running_}) {
    for (const Sequence* sequence : *candidates) {
      ++totals_.visits;
      slots += SlotsOf(*sequence);
      if (slots >= options_.max_batch || now - sequence->request->submitted >= options_.batch_timeout) return true;
    }
  }
  return false;
}

void Scheduler::AdmitPassedOver() {
  if (waiting_.empty() || passed_over_ < kMaxPassedOver) return;
  Sequence* head = *waiting_.begin();
  if (!SlotIsFree(*head)) return;
  while (!TryAdmit(head)) {
    Sequence* victim = FindVictim(head);
    if (victim == nullptr) return;
    Preempt(victim);
  }
}

void Scheduler::ScheduleDecodes() {
  // A prompt in progress keeps one slot and one token of the budget, else a steady inflow of handoffs could stop it.
  const bool prompts = std::any_of(order_.begin(), order_.end(), [](const Sequence* s) { return s->Remaining() > 1; });
  uint32_t room = std::min(slots_left_, tokens_left_);
  if (prompts && room > 1) --room;
  for (Sequence* sequence : order_) {
    if (room == 0) return;
    if (sequence->phase != SequencePhase::kRunning || sequence->Remaining() != 1) continue;
    if (Place(sequence, 1)) --room;
  }
}

void Scheduler::ScheduleChunks() {
  for (Sequence* sequence : order_) {
    if (slots_left_ == 0 || tokens_left_ == 0) return;
    if (sequence->phase != SequencePhase::kRunning || sequence->Remaining() <= 1) continue;
    const uint32_t chunk = ChunkSize(*sequence);
    if (chunk == 0) return;
    Place(sequence, chunk);
  }
}

void Scheduler::ScheduleWaiting() {
  // A step that had to take blocks from somebody has none to give.
  while (!preempted_ && !waiting_.empty() && slots_left_ > 0 && tokens_left_ > 0) {
    Sequence* head = *waiting_.begin();
    if (FixedBatches() && !head->in_batch) return;  // only members that were preempted come back
    // Who gets no tokens needs no blocks yet.
    if (options_.chunked_prefill && WithinBudget(0, 1) == 0) return;
    if (!TryAdmit(head)) return;
    const uint32_t chunk = ChunkSize(*head);
    if (chunk == 0) return;
    Place(head, chunk);
  }
}

uint32_t Scheduler::ChunkSize(const Sequence& sequence) {
  const uint32_t remaining = sequence.Remaining();
  if (options_.chunked_prefill) {
    return WithinBudget(sequence.computed, std::min({remaining, options_.chunk_tokens, tokens_left_}));
  }
  if (!prompt_in_step_) return std::min(remaining, options_.step_limit - plan_.tokens);
  return remaining <= tokens_left_ ? remaining : 0;
}

uint32_t Scheduler::WithinBudget(uint32_t position, uint32_t chunk) {
  const StepShape& shape = plan_.shape;
  if (options_.max_itl <= Duration::zero() || shape.decodes == 0) return chunk;
  const uint32_t least = kLeastPromptTokens - std::min(shape.prompt_tokens, kLeastPromptTokens);
  const uint32_t allowed =
      std::max(least, cost_.PromptTokensWithin(options_.max_itl, shape, position, options_.chunk_tokens));
  plan_.prompt_budget = std::max(plan_.prompt_budget.value_or(0), shape.prompt_tokens + allowed);
  return std::min(chunk, allowed);
}

bool Scheduler::Place(Sequence* sequence, uint32_t tokens) {
  const uint32_t begin = sequence->computed;
  const uint32_t end = begin + tokens;
  while (const uint32_t missing = sequence->table.Missing(*pool_, options_.block_size, begin, end)) {
    if (auto fresh = pool_->Allocate(missing); fresh.ok()) {
      sequence->table.AddSpares(*fresh);
      break;
    }
    if (Sequence* victim = FindVictim(sequence)) {
      Preempt(victim);
      continue;
    }
    // The first in order keeps what it has: whoever holds the rest gives it back in time. Any other steps aside.
    if (sequence != *running_.begin()) Preempt(sequence);
    return false;
  }
  sequence->table.MakeWritable(pool_, options_.block_size, begin, end, &plan_.copies);

  ActiveRequest& request = *sequence->request;
  bool wants_logits = end == sequence->tokens.size();
  if (!request.forked && request.spec.work != WorkKind::kPrefill) {
    // The prompt's last logits serve the choices that have no token yet.
    wants_logits =
        wants_logits && std::any_of(request.sequences.begin(), request.sequences.end(), [&](const auto& other) {
          return !other->ended && request.spec.choices[other->slot].generated.empty();
        });
  }
  plan_.runs.push_back({sequence, begin, end, wants_logits});
  plan_.tokens += tokens;
  plan_.shape.AddRun(begin, end, IsStream(*sequence));
  tokens_left_ -= std::min(tokens, tokens_left_);
  --slots_left_;
  prompt_in_step_ = prompt_in_step_ || tokens > 1;
  sequence->last_step = step_;
  if (!request.admitted) {
    request.admitted = true;
    plan_.started.push_back(&request);
  }
  return true;
}

bool Scheduler::SlotIsFree(const Sequence& sequence) {
  // Only those before it count: the others yield their slot.
  uint32_t used = 0;
  for (const Sequence* other : running_) {
    ++totals_.visits;
    if (!ByOrder()(other, &sequence)) break;
    used += SlotsOf(*other);
  }
  return used == 0 || used + SlotsOf(sequence) <= options_.max_batch;
}

bool Scheduler::TryAdmit(Sequence* sequence) {
  if (!SlotIsFree(*sequence)) return false;
  const uint32_t available = pool_->counts().available();
  if (blocked_ == sequence && available <= blocked_available_ && !running_.empty()) return false;

  const auto chain = FindableChain(sequence);
  const std::vector<BlockId> hits = pool_->MatchPrefix(chain);
  const uint32_t needed = BlocksFor(sequence->tokens.size()) - static_cast<uint32_t>(hits.size());
  // While others grow, room for the watermark and for the block that decoding may need next.
  const uint32_t reserve = running_.empty() ? 0 : options_.watermark_blocks + 1;
  absl::StatusOr<std::vector<BlockId>> fresh = ResourceExhausted("below the watermark");
  if (pool_->counts().available() >= needed + reserve) fresh = pool_->Allocate(needed);
  if (!fresh.ok()) {
    pool_->Release(hits);
    blocked_ = sequence;
    blocked_available_ = available;
    return false;
  }
  ActiveRequest& request = *sequence->request;
  sequence->table.Append(hits);
  sequence->table.Append(*fresh);
  sequence->published = static_cast<uint32_t>(hits.size());
  sequence->computed = sequence->published * options_.block_size;
  SwapIn(sequence);
  if (!request.admitted) {
    request.cached_tokens = std::min(sequence->computed, request.prompt_size());
    totals_.prefix_queries += chain.size();
    totals_.prefix_hits += hits.size();
  }
  StopWaiting(sequence);
  sequence->in_batch = FixedBatches();
  StartRunning(sequence);
  return true;
}

}  // namespace baton
