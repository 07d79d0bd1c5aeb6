// A step allocates nothing: every way to the heap is counted in this program.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "tests/fakes/random_model.h"
#include "tests/unit/engine/runner_harness.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define BATON_COUNTS_ALLOCATIONS 1

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

// operator new comes through malloc.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  ++allocations;
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  ++allocations;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

namespace baton {
namespace {

#ifdef BATON_COUNTS_ALLOCATIONS

// Sequences of one step, with whatever the step needs made before.
struct Batch {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<StepSequence> sequences;
  std::vector<std::span<float>> logits;

  std::vector<Sampler> samplers;
  std::vector<StepSample> samples;

  void Add(uint32_t position, uint32_t count, std::span<const BlockId> blocks) {
    tokens.emplace_back(count, static_cast<TokenId>(position % 300));
    sequences.push_back({{}, position, blocks, true});
    for (size_t i = 0; i < tokens.size(); ++i) sequences[i].tokens = tokens[i];
    logits.resize(sequences.size());
  }
  // Every sequence's next token, under parameters of many kinds.
  void Sample(uint32_t vocab) {
    samplers.reserve(sequences.size());
    for (uint32_t i = 0; i < sequences.size(); ++i) {
      SamplingParams params{.max_tokens = 1000, .temperature = i % 3 == 0 ? 0.0f : 0.8f, .seed = i};
      params.top_p = i % 2 == 0 ? 1.0f : 0.9f;
      params.top_k = i % 4 == 0 ? 20 : 0;
      params.logit_bias = {{3, 1.0f}};
      params.repetition_penalty = 1.1f;
      std::vector<TokenId> seen(vocab);  // nothing is left that a history could grow by
      std::iota(seen.begin(), seen.end(), 0);
      samplers.emplace_back(params, 0, vocab, seen, std::span<const TokenId>());
      samples.push_back({.sampler = &samplers.back()});
    }
    for (size_t i = 0; i < sequences.size(); ++i) sequences[i].samples = {&samples[i], 1};
  }
  uint64_t AllocationsOfStep(CpuRunner& runner) {
    const uint64_t before = allocations;
    const absl::Status status = runner.Step(sequences, logits);
    const uint64_t count = allocations - before;
    EXPECT_TRUE(status.ok()) << status;
    return count;
  }
};

TEST(StepAllocations, TheCounterCounts) {
  const uint64_t before = allocations;
  std::vector<int> memory(10);
  EXPECT_GT(allocations, before);
}

TEST(StepAllocations, NoneWhateverTheBatchOnceThePoolIsWarm) {
  for (const WeightsFormat format : {WeightsFormat::kBF16, WeightsFormat::kInt8, WeightsFormat::kInt4}) {
    for (const DType kv_dtype : {DType::kBF16, DType::kI8}) {
      const auto weights = PackOrDie(*fakes::MakeRandomModel(fakes::TinyConfig(), 1, DType::kF32), format);
      RunnerHarness harness(weights, kv_dtype, 128, {.threads = 3, .max_step_tokens = 256, .max_batch = 20});
      std::vector<std::vector<BlockId>> blocks(20);
      for (BlockId block = 0; block < 120; ++block) blocks[block / 6].push_back(block);
      std::vector<BlockId> long_table(128);
      for (BlockId block = 0; block < 128; ++block) long_table[block] = block;

      Batch one, prompt, mixed, far;
      one.Add(5, 1, blocks[0]);
      prompt.Add(0, 90, blocks[0]);
      for (uint32_t i = 0; i < 20; ++i) mixed.Add(3 * i, i % 7 == 0 ? 30 : 1, blocks[i]);
      far.Add(500, 1, long_table);  // attention is split along positions
      mixed.Sample(harness.runner().vocab_size());
      for (Batch* batch : {&one, &prompt, &mixed, &far}) batch->AllocationsOfStep(harness.runner());
      for (Batch* batch : {&one, &prompt, &mixed, &far, &one}) {
        EXPECT_EQ(batch->AllocationsOfStep(harness.runner()), 0u) << batch->sequences.size() << " sequences";
      }
    }
  }
}

#else

TEST(StepAllocations, NoneWhateverTheBatchOnceThePoolIsWarm) {
  GTEST_SKIP() << "allocations are the sanitizer's or not glibc's";
}

#endif

}  // namespace
}  // namespace baton
