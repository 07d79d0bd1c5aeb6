#include "tests/fakes/fake_runner.h"

#include <algorithm>
#include <limits>

#include "common/base/status.h"
#include "common/sampling/sampler.h"

namespace baton {
namespace {

constexpr uint64_t kNanKv = ~uint64_t{0};

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x7F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

uint64_t KvOf(TokenId token, uint32_t position, uint64_t before) {
  return before == kNanKv ? kNanKv : Mix(Mix(static_cast<uint64_t>(token) + 1, position), before) >> 1;
}

void FillLogits(uint64_t state, std::span<float> row) {
  for (size_t id = 0; id < row.size(); ++id) {
    row[id] = state == kNanKv ? std::numeric_limits<float>::quiet_NaN()
                              : static_cast<float>(Mix(state, id) >> 40) / 4194304.0f;  // [0, 4)
  }
}

}  // namespace

FakeRunner::FakeRunner(const Options& options) : options_(options) {
  store_.resize(size_t{options.blocks} * options.block_size);
  for (size_t i = 0; i < store_.size(); ++i) store_[i] = Mix(i, 0xDEAD) >> 1;  // unwritten memory is never zero
  swap_.resize(size_t{options.swap_slots} * options.block_size);
  logits_.resize(size_t{options.max_batch} * options.vocab_size);
}

std::span<uint64_t> FakeRunner::Slots(BlockId block) {
  return std::span(store_).subspan(size_t{block} * options_.block_size, options_.block_size);
}

absl::Status FakeRunner::Check(std::span<const StepSequence> batch) const {
  if (batch.empty() || batch.size() > options_.max_batch) return Internal("%d sequences", batch.size());
  uint64_t tokens = 0;
  for (const StepSequence& sequence : batch) {
    tokens += sequence.tokens.size();
    const uint64_t end = sequence.position + sequence.tokens.size();
    if (sequence.tokens.empty() || sequence.blocks.size() * options_.block_size < end) {
      return Internal("%d blocks for %d positions", sequence.blocks.size(), end);
    }
    for (const BlockId block : sequence.blocks) {
      if (block >= options_.blocks) return Internal("block %d", block);
    }
  }
  if (tokens > options_.max_step_tokens) return Internal("%d tokens", tokens);
  return absl::OkStatus();
}

absl::Status FakeRunner::Step(std::span<const StepSequence> batch, std::span<std::span<float>> logits) {
  if (before_step) BATON_RETURN_IF_ERROR(before_step());
  BATON_RETURN_IF_ERROR(Check(batch));
  uint32_t tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    // Neighbours run in either order: none may read what another writes in this step.
    const size_t at = batch_sizes.size() % 2 == 0 ? i : batch.size() - 1 - i;
    const std::span<float> row =
        std::span(logits_).subspan(at * options_.vocab_size, batch[at].needs_logits() ? options_.vocab_size : 0);
    RunSequence(batch[at], row);
    SampleRow(row, batch[at].samples);
    if (batch[at].wants_logits) logits[at] = row;
    tokens += static_cast<uint32_t>(batch[at].tokens.size());
  }
  batch_sizes.push_back(static_cast<uint32_t>(batch.size()));
  batch_tokens.push_back(tokens);
  positions_run_ += tokens;
  if (step_cost) clock->Advance(step_cost(batch));
  work_ = {tokens * uint64_t{2}, tokens * uint64_t{8}};
  return absl::OkStatus();
}

void FakeRunner::RunSequence(const StepSequence& sequence, std::span<float> row) {
  const auto slot = [&](uint32_t position) -> uint64_t& {
    return store_[size_t{sequence.blocks[position / options_.block_size]} * options_.block_size +
                  position % options_.block_size];
  };
  uint32_t position = sequence.position;
  for (const TokenId token : sequence.tokens) {
    const uint64_t before = position == 0 ? 0 : slot(position - 1);
    slot(position) = token == poison ? kNanKv : KvOf(token, position, before);
    ++position;
  }
  if (row.empty()) return;
  uint64_t state = 0;
  for (uint32_t i = 0; i < position; ++i)
    state = slot(i) == kNanKv || state == kNanKv ? kNanKv : Mix(state, slot(i)) >> 1;
  FillLogits(state, row);
}

void FakeRunner::CopyBlock(BlockId from, BlockId to) {
  for (uint32_t i = 0; i < options_.block_size; ++i) Slots(to)[i] = Slots(from)[i];
}

void FakeRunner::SwapOut(BlockId from, uint32_t slot) {
  if (before_swap) before_swap();
  const auto block = Slots(from);
  std::copy(block.begin(), block.end(), swap_.begin() + static_cast<ptrdiff_t>(slot * options_.block_size));
  if (clock) clock->Advance(swap_cost);
}

void FakeRunner::SwapIn(uint32_t slot, BlockId to) {
  if (before_swap) before_swap();
  const auto block = std::span(swap_).subspan(size_t{slot} * options_.block_size, options_.block_size);
  std::copy(block.begin(), block.end(), Slots(to).begin());
  if (clock) clock->Advance(swap_cost);
}

std::vector<TokenId> FakeModelTokens(const SamplingParams& params, uint32_t choice, uint32_t vocab_size,
                                     std::span<const TokenId> prompt, std::span<const TokenId> generated) {
  std::vector<TokenId> tokens(prompt.begin(), prompt.end());
  tokens.insert(tokens.end(), generated.begin(), generated.end());
  Sampler sampler(params, choice, vocab_size, prompt, generated);
  std::vector<TokenId> out;
  std::vector<float> row(vocab_size);
  uint64_t state = 0, kv = 0;
  uint32_t done = 0;
  while (true) {
    for (; done < tokens.size(); ++done) {
      kv = KvOf(tokens[done], done, kv);
      state = Mix(state, kv) >> 1;
    }
    FillLogits(state, row);
    const SampledToken token = sampler.Sample(row);
    out.push_back(token.id);
    if (token.finish != FinishReason::kNone) return out;
    tokens.push_back(token.id);
  }
}

}  // namespace baton
