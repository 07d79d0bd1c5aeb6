// Scheduler: who gives its blocks to whom, and where its KV goes meanwhile.

#include <algorithm>

#include "common/engine/scheduler.h"

namespace baton {

Sequence* Scheduler::FindVictim(const Sequence* beneficiary) {
  for (auto last = running_.rbegin(); last != running_.rend() && ByOrder()(beneficiary, *last); ++last) {
    ++totals_.visits;
    // A kPrefill request's blocks may be read by a transfer, and it needs no more than it has.
    if ((*last)->request->spec.work != WorkKind::kPrefill && (*last)->last_step != step_) return *last;
  }
  return nullptr;
}

void Scheduler::Preempt(Sequence* sequence) {
  if (SwapOut(sequence)) ++totals_.swap_preemptions;
  StopRunning(sequence);
  sequence->table.ReleaseAll(pool_);
  sequence->computed = 0;
  sequence->published = 0;
  ++sequence->request->preemptions;
  ++totals_.preemptions;
  preempted_ = true;
  Wait(sequence);
}

bool Scheduler::SwapOut(Sequence* sequence) {
  const uint32_t blocks = BlocksFor(sequence->computed);
  if (blocks == 0 || options_.preemption == PreemptionMode::kRecompute) return false;
  if (options_.preemption == PreemptionMode::kAuto && !cost_.SwapIsCheaper(blocks, sequence->computed)) return false;
  auto slots = swap_.Take(blocks);
  if (!slots) return false;
  for (uint32_t i = 0; i < blocks; ++i) {
    plan_.copies.push_back({sequence->table.blocks()[i], (*slots)[i], BlockCopy::Kind::kSwapOut});
  }
  sequence->swapped = *std::move(slots);
  sequence->swapped_tokens = sequence->computed;
  totals_.swapped_out_blocks += blocks;
  return true;
}

// Once it has blocks again; what the prefix cache had of it needs no copy.
void Scheduler::SwapIn(Sequence* sequence) {
  for (uint32_t i = sequence->computed / options_.block_size; i < sequence->swapped.size(); ++i) {
    plan_.copies.push_back({sequence->swapped[i], sequence->table.blocks()[i], BlockCopy::Kind::kSwapIn});
    ++totals_.swapped_in_blocks;
  }
  sequence->computed = std::max(sequence->computed, sequence->swapped_tokens);
  DropSwapped(sequence);
}

void Scheduler::DropSwapped(Sequence* sequence) {
  swap_.Give(sequence->swapped);
  sequence->swapped.clear();
  sequence->swapped_tokens = 0;
}

}  // namespace baton
