#include "common/engine/scheduler.h"

#include <algorithm>
#include <tuple>

#include "common/base/aged_priority.h"
#include "common/base/block_hash.h"
#include "common/base/status.h"

namespace baton {

bool Scheduler::ByOrder::operator()(const Sequence* a, const Sequence* b) const {
  if (a->in_batch != b->in_batch) return a->in_batch;
  return std::tie(a->rank, a->request->arrival, a->slot) < std::tie(b->rank, b->request->arrival, b->slot);
}

Scheduler::Scheduler(const SchedulerOptions& options, BlockPool* pool)
    : options_(options), pool_(pool), swap_(options.swap_slots) {}

uint32_t Scheduler::BlocksFor(size_t tokens) const {
  return static_cast<uint32_t>((tokens + options_.block_size - 1) / options_.block_size);
}

void Scheduler::Add(ActiveRequest* request) {
  EngineRequest& spec = request->spec;
  ++requests_;
  request->arrival = next_arrival_++;
  request->unfinished = static_cast<uint32_t>(spec.choices.size());
  const bool shares_prompt =
      spec.work == WorkKind::kPrefill || (spec.work == WorkKind::kGenerate && spec.choices.size() > 1);
  request->forked = !shares_prompt;
  for (uint32_t slot = 0; slot < spec.choices.size(); ++slot) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request = request;
    sequence->slot = slot;
    sequence->rank = AgedRank(spec.priority, request->submitted - spec.waited, options_.priority_aging);
    if (slot == 0 || request->forked) sequence->tokens = spec.prompt;
    if (request->forked) {
      const auto& generated = spec.choices[slot].generated;
      sequence->tokens.insert(sequence->tokens.end(), generated.begin(), generated.end());
    }
    request->sequences.push_back(std::move(sequence));
  }
  if (spec.work != WorkKind::kDecode) {
    Wait(&request->root());
    return;
  }
  const std::span<const BlockId> blocks = spec.blocks;
  const uint32_t prompt_blocks = BlocksFor(spec.prompt.size());
  request->root().table.Append(blocks.first(prompt_blocks));
  for (const auto& sequence : request->sequences) {
    if (sequence->slot > 0) sequence->table = request->root().table.ShareFirst(pool_, prompt_blocks);
    sequence->table.AddSpares(blocks.subspan(prompt_blocks + sequence->slot, 1));
    sequence->computed = request->prompt_size();
    StartRunning(sequence.get());
    if (blocked_ != nullptr && ByOrder()(blocked_, sequence.get())) ++passed_over_;
  }
  spec.blocks.clear();
}

std::span<const Hash128> Scheduler::FindableChain(Sequence* sequence) const {
  const EngineRequest& spec = sequence->request->spec;
  if (!UsesCache(*sequence->request)) return {};
  ExtendBlockChain(sequence->tokens, options_.block_size, spec.cache_salt, &sequence->chain);
  return std::span(sequence->chain).first((sequence->tokens.size() - 1) / options_.block_size);
}

void Scheduler::Wait(Sequence* sequence) {
  sequence->phase = SequencePhase::kWaiting;
  const uint32_t cached = pool_->PeekPrefix(FindableChain(sequence)) * options_.block_size;
  sequence->waiting_tokens =
      static_cast<uint32_t>(sequence->tokens.size()) - std::max(cached, sequence->swapped_tokens);
  waiting_tokens_ += sequence->waiting_tokens;
  waiting_.insert(sequence);
}

void Scheduler::StopWaiting(Sequence* sequence) {
  waiting_tokens_ -= sequence->waiting_tokens;
  waiting_.erase(sequence);
  if (blocked_ != sequence) return;
  blocked_ = nullptr;
  passed_over_ = 0;
}

void Scheduler::StartRunning(Sequence* sequence) {
  sequence->phase = SequencePhase::kRunning;
  sequence->last_step = step_;
  running_.insert(sequence);
  if (sequence->request->running++ == 0) ++requests_running_;
}

void Scheduler::StopRunning(Sequence* sequence) {
  running_.erase(sequence);
  if (--sequence->request->running == 0) --requests_running_;
}

void Scheduler::Advance(const ScheduledRun& run) { run.sequence->computed = run.end; }

void Scheduler::PublishFull(Sequence* sequence) {
  const uint32_t full = sequence->computed / options_.block_size;
  if (full <= sequence->published || !UsesCache(*sequence->request)) return;
  ExtendBlockChain(sequence->tokens, options_.block_size, sequence->request->spec.cache_salt, &sequence->chain);
  const uint32_t count = full - sequence->published;
  pool_->Publish(sequence->table.blocks().subspan(sequence->published, count),
                 std::span(sequence->chain).subspan(sequence->published, count));
  sequence->published = full;
}

void Scheduler::Fork(ActiveRequest* request) {
  Sequence& root = request->root();
  request->forked = true;
  const uint32_t prompt_blocks = BlocksFor(request->prompt_size());
  for (const auto& sequence : request->sequences) {
    if (sequence->ended) continue;
    if (sequence.get() != &root) {
      sequence->in_batch = root.in_batch;
      sequence->tokens = root.tokens;
      sequence->computed = root.computed;
      sequence->table = root.table.ShareFirst(pool_, prompt_blocks);
      sequence->chain = root.chain;
      sequence->published = root.published;
      StartRunning(sequence.get());
    }
  }
  for (const auto& sequence : request->sequences) {
    const auto& generated = request->spec.choices[sequence->slot].generated;
    sequence->tokens.insert(sequence->tokens.end(), generated.begin(), generated.end());
  }
  if (root.ended) Leave(&root);
}

void Scheduler::Append(Sequence* sequence, TokenId token) {
  sequence->tokens.push_back(token);
  if (options_.kv_cache || sequence->phase != SequencePhase::kRunning) return;
  if (sequence->request->spec.work == WorkKind::kPrefill) return;  // others need its blocks, and it runs no more
  sequence->table.ReleaseAll(pool_);
  sequence->computed = 0;
}

void Scheduler::Finish(Sequence* sequence) {
  ActiveRequest& request = *sequence->request;
  BATON_CHECK(!sequence->ended);
  sequence->ended = true;
  --request.unfinished;
  // Other choices wait for the prompt, or a transfer reads it.
  const bool prompt_is_needed = !request.forked && sequence == &request.root() &&
                                (request.unfinished > 0 || request.spec.work == WorkKind::kPrefill);
  if (!prompt_is_needed) Leave(sequence);
}

void Scheduler::Leave(Sequence* sequence) {
  if (sequence->phase == SequencePhase::kWaiting) {
    StopWaiting(sequence);
    DropSwapped(sequence);
  }
  if (sequence->phase == SequencePhase::kRunning) {
    StopRunning(sequence);
    sequence->table.ReleaseAll(pool_);
  }
  sequence->phase = SequencePhase::kFinished;
}

void Scheduler::Remove(ActiveRequest* request) {
  for (const auto& sequence : request->sequences) {
    Leave(sequence.get());
    sequence->ended = true;
  }
  request->unfinished = 0;
  --requests_;
}

SchedulerCounts Scheduler::counts() const {
  SchedulerCounts counts = totals_;
  counts.waiting_requests = requests_ - requests_running_;
  counts.running_sequences = static_cast<uint32_t>(running_.size());
  counts.waiting_tokens = waiting_tokens_;
  counts.swap_slots_used = swap_.used();
  for (const Sequence* sequence : running_) {
    if (sequence->Remaining() > 1) counts.waiting_tokens += sequence->Remaining();
  }
  return counts;
}

}  // namespace baton
