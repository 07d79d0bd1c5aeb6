#include <bit>
#include <cfloat>
#include <cmath>

#include "common/base/fixed_math.h"
#include "common/base/philox.h"
#include "common/base/weight_mass.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"
#include "kernels/cuda/sampling.h"

namespace baton::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBins = 1024;
constexpr float kImpossible = -INFINITY;
constexpr float kGreedyTemperature = 1e-4f;

// A block works on one row. Its threads go over the vocabulary together; each returns the same values.
class RowSampler {
 public:
  __device__ RowSampler(const SampleInputs& inputs, const SampleRow& row, float* weights, TopToken* tops)
      : logits_(inputs.logits + row.logits * inputs.stride),
        weights_(weights),
        biases_(inputs.biases + row.first_bias),
        masked_(inputs.masked + row.first_masked),
        history_(row.history < 0 ? nullptr : inputs.histories + int64_t{row.history} * inputs.vocab),
        tops_(tops),
        row_(row),
        vocab_(inputs.vocab),
        thread_(static_cast<int>(threadIdx.x)) {
    histogram_ = shared_.Take<uint64_t>(kBins);
    partial_ = shared_.Take<uint64_t>(kWarps);
    found_ = shared_.Take<uint64_t>(2);
  }
  static size_t shared_bytes() {
    return SharedBytes<uint64_t>(kBins) + SharedBytes<uint64_t>(kWarps) + SharedBytes<uint64_t>(2);
  }

  __device__ void Run(SampledRow* result) {
    for (int id = thread_; id < vocab_; id += kThreads) weights_[id] = Masked(logits_[id]);
    BlockBarrier();
    uint64_t best = LargestBelow(~uint64_t{0});
    if (best == 0) return Finish(result, -1);
    const float raw_max = LogitOf(best);
    double log_sum = 0;
    if (row_.top >= 0) {
      log_sum = RawLogSum(raw_max);
      RawTop(best, raw_max, log_sum, result);
    }
    if (ApplyRules()) {
      best = LargestBelow(~uint64_t{0});
      if (best == 0) return Finish(result, -1);
    }
    const bool greedy = row_.temperature <= kGreedyTemperature || row_.top_k == 1 || row_.top_p <= 0.0f;
    const int id = greedy ? IdOf(best) : Draw(LogitOf(best));
    Finish(result, id);
    if (thread_ != 0) return;
    if (row_.top >= 0) result->logprob = Logprob(logits_[id], raw_max, log_sum);
    if (history_ != nullptr) history_[id] = (history_[id] | kSeen) + 1;
  }

 private:
  __device__ static float Masked(float logit) {
    return (std::bit_cast<uint32_t>(logit) & 0x7F800000) == 0x7F800000 ? kImpossible : logit;
  }
  __device__ static float Clamp(float logit) { return fminf(fmaxf(logit, -FLT_MAX), FLT_MAX); }
  // Ordered by logit, then by lower id; above 0 for every possible token.
  __device__ static uint64_t KeyOf(float logit, int id) {
    const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 is as large as 0
    const uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
    return logit == kImpossible ? 0 : uint64_t{ordered} << 32 | (0xffffffffu - static_cast<uint32_t>(id));
  }
  __device__ static int IdOf(uint64_t key) { return static_cast<int>(0xffffffffu - static_cast<uint32_t>(key)); }
  __device__ static float LogitOf(uint64_t key) {
    const auto ordered = static_cast<uint32_t>(key >> 32);
    return std::bit_cast<float>(ordered >> 31 != 0 ? ordered & 0x7fffffffu : ~ordered);
  }

  __device__ void Finish(SampledRow* result, int id) {
    if (thread_ != 0) return;
    result->id = id;
    result->logprob = 0;
    if (row_.top < 0 || id < 0) result->top_count = 0;
  }

  // In the order transformers has; impossible tokens stay so. Whether there were any.
  __device__ bool ApplyRules() {
    for (int i = thread_; i < row_.biases; i += kThreads) {
      const LogitBias bias = biases_[i];
      if (IsPossible(bias.id)) weights_[bias.id] = Clamp(weights_[bias.id] + bias.bias);
    }
    BlockBarrier();
    if (history_ != nullptr) {
      for (int id = thread_; id < vocab_; id += kThreads) {
        if (history_[id] != 0 && weights_[id] != kImpossible) weights_[id] = Penalized(weights_[id], history_[id]);
      }
      BlockBarrier();
    }
    for (int i = thread_; i < row_.masked; i += kThreads) {
      if (IsPossible(masked_[i])) weights_[masked_[i]] = kImpossible;
    }
    BlockBarrier();
    return row_.biases > 0 || row_.masked > 0 || history_ != nullptr;
  }
  __device__ bool IsPossible(TokenId id) const { return id >= 0 && id < vocab_ && weights_[id] != kImpossible; }
  __device__ float Penalized(float logit, uint32_t word) const {
    if (row_.repetition_penalty != 1.0f) {
      logit = Clamp(logit > 0 ? logit / row_.repetition_penalty : logit * row_.repetition_penalty);
    }
    const uint32_t count = word & ~kSeen;
    if (count == 0) return logit;
    return Clamp(logit - row_.presence_penalty - row_.frequency_penalty * static_cast<float>(count));
  }

  // Every thread gets the sum (or maximum) of all threads' values.
  template <typename Combine>
  __device__ uint64_t Reduce(uint64_t value, const Combine& combine) {
    for (int mask = kWarp / 2; mask > 0; mask /= 2) value = combine(value, ShuffleXor(value, mask));
    if (Lane() == 0) partial_[WarpIndex()] = value;
    BlockBarrier();
    value = partial_[0];
    for (int warp = 1; warp < kWarps; ++warp) value = combine(value, partial_[warp]);
    BlockBarrier();
    return value;
  }
  __device__ uint64_t Sum(uint64_t value) {
    return Reduce(value, [](uint64_t a, uint64_t b) { return a + b; });
  }
  // The largest key below `limit`, of the logits in weights_; 0 when there is none.
  __device__ uint64_t LargestBelow(uint64_t limit) {
    uint64_t largest = 0;
    for (int id = thread_; id < vocab_; id += kThreads) {
      const uint64_t key = KeyOf(weights_[id], id);
      if (key < limit && key > largest) largest = key;
    }
    return Reduce(largest, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
  }

  __device__ double RawLogSum(float max) {
    uint64_t mass = 0;
    for (int id = thread_; id < vocab_; id += kThreads) mass += WeightMass(ExpNonPositive(weights_[id] - max));
    return Log(static_cast<double>(Sum(mass)) / kMassUnits);
  }
  __device__ static float Logprob(float logit, float max, double log_sum) {
    return static_cast<float>((static_cast<double>(logit) - static_cast<double>(max)) - log_sum);
  }
  __device__ void RawTop(uint64_t best, float max, double log_sum, SampledRow* result) {
    int count = 0;
    for (uint64_t key = best; count < row_.top && key != 0; ++count) {
      if (thread_ == 0) {
        tops_[count] = {IdOf(key), Logprob(LogitOf(key), max, log_sum)};
      }
      key = count + 1 < row_.top ? LargestBelow(key) : 0;
    }
    if (thread_ == 0) result->top_count = count;
  }

  // The first id, ascending, at which the sum of measure(id) is above `target`; -1 when it never is.
  template <typename Measure>
  __device__ int FirstAbove(uint64_t target, const Measure& measure) {
    const int segment = (vocab_ + kThreads - 1) / kThreads * kWarp;  // of one warp
    const int begin = WarpIndex() * segment;
    const int end = begin + segment < vocab_ ? begin + segment : vocab_;
    uint64_t sum = 0;
    for (int id = begin + Lane(); id < end; id += kWarp) sum += measure(id);
    for (int mask = kWarp / 2; mask > 0; mask /= 2) sum += ShuffleXor(sum, mask);
    if (Lane() == 0) partial_[WarpIndex()] = sum;
    if (thread_ == 0) found_[0] = ~uint64_t{0};
    BlockBarrier();
    uint64_t passed = 0;
    int warp = 0;
    while (warp < kWarps && passed + partial_[warp] <= target) passed += partial_[warp++];
    if (warp == WarpIndex()) {
      bool found = false;
      for (int first = begin; !found; first += kWarp) {
        const int id = first + Lane();
        uint64_t up_to = id < end ? measure(id) : 0;
        for (int delta = 1; delta < kWarp; delta *= 2) {
          const uint64_t before = ShuffleUp(up_to, delta);
          if (Lane() >= delta) up_to += before;
        }
        const uint32_t above = Ballot(passed + up_to > target);
        found = above != 0;
        // The lowest lane that is above.
        if (found && (above & ((1u << Lane()) - 1u)) == 0 && (above >> Lane() & 1u) != 0)
          found_[0] = static_cast<uint64_t>(id);
        passed += Shuffle(up_to, kWarp - 1);
      }
    }
    BlockBarrier();
    const uint64_t id = found_[0];
    BlockBarrier();
    return id == ~uint64_t{0} ? -1 : static_cast<int>(id);
  }

  // The shortest prefix of `kept` whose measures add up to `goal`: a radix search over the bits of the weights, ten at
  // a time; measure(bits) is of a weight.
  template <typename Measure>
  __device__ KeptPrefix ShortestPrefix(KeptPrefix kept, uint64_t goal, const Measure& measure) {
    uint32_t prefix = 0;
    uint64_t above = 0;
    for (int shift = 20; shift >= 0; shift -= 10) {
      for (int bin = thread_; bin < kBins; bin += kThreads) histogram_[bin] = 0;
      BlockBarrier();
      for (int id = thread_; id < vocab_; id += kThreads) {
        const uint32_t bits = std::bit_cast<uint32_t>(weights_[id]);
        if (!kept.Keeps(bits, id) || (shift != 20 && bits >> (shift + 10) != prefix)) continue;
        AtomicAdd(&histogram_[bits >> shift & (kBins - 1)], measure(bits));
      }
      BlockBarrier();
      if (WarpIndex() == 0) FindBin(above, goal);
      BlockBarrier();
      prefix = prefix << 10 | static_cast<uint32_t>(found_[0]);
      above = found_[1];
      BlockBarrier();
    }
    const int last = FirstAbove(goal - above - 1, [&](int id) -> uint64_t {
      const uint32_t bits = std::bit_cast<uint32_t>(weights_[id]);
      return bits == prefix && kept.Keeps(bits, id) ? measure(bits) : 0;
    });
    return last < 0 ? kept : KeptPrefix{prefix, last};
  }
  // By one warp: from the highest bin down, the first at which the sum reaches the goal, or bin 0, and the sum above
  // it.
  __device__ void FindBin(uint64_t above, uint64_t goal) {
    constexpr int kEach = kBins / kWarp;
    const int highest = kBins - 1 - Lane() * kEach;
    uint64_t sum = 0;
    for (int i = 0; i < kEach; ++i) sum += histogram_[highest - i];
    uint64_t up_to = sum;
    for (int delta = 1; delta < kWarp; delta *= 2) {
      const uint64_t before = ShuffleUp(up_to, delta);
      if (Lane() >= delta) up_to += before;
    }
    const uint32_t reached = Ballot(above + up_to >= goal) | 1u << (kWarp - 1);
    if ((reached >> Lane() & 1u) == 0 || (reached & ((1u << Lane()) - 1u)) != 0) return;
    above += up_to - sum;
    int bin = highest;
    while (bin > 0 && above + histogram_[bin] < goal) above += histogram_[bin--];
    found_[0] = static_cast<uint64_t>(bin);
    found_[1] = above;
  }

  __device__ uint64_t KeptMass(const KeptPrefix& kept) {
    uint64_t mass = 0;
    for (int id = thread_; id < vocab_; id += kThreads) mass += MassIfKept(kept, id);
    return Sum(mass);
  }
  __device__ uint64_t MassIfKept(const KeptPrefix& kept, int id) const {
    return kept.Keeps(std::bit_cast<uint32_t>(weights_[id]), id) ? WeightMass(weights_[id]) : 0;
  }

  __device__ int Draw(float max) {
    for (int id = thread_; id < vocab_; id += kThreads) {
      weights_[id] = ExpNonPositive((weights_[id] - max) / row_.temperature);
    }
    BlockBarrier();
    KeptPrefix kept;
    if (row_.top_k > 0 && row_.top_k < static_cast<uint32_t>(vocab_)) {
      kept = ShortestPrefix(kept, row_.top_k, [](uint32_t) { return uint64_t{1}; });
    }
    if (row_.top_p < 1.0f) {
      kept = ShortestPrefix(kept, ShareOfMass(KeptMass(kept), row_.top_p),
                            [](uint32_t bits) { return WeightMass(std::bit_cast<float>(bits)); });
    }
    kept = KeepMinP(kept, row_.min_p);
    const uint64_t random = TokenRandom(row_.seed, row_.choice_index, row_.token_index);
    const uint64_t target = MultiplyHigh(random, KeptMass(kept));
    return FirstAbove(target, [&](int id) { return MassIfKept(kept, id); });
  }

  SharedArena shared_;
  const float* logits_;
  float* weights_;  // logits after the rules, then weights
  const LogitBias* biases_;
  const TokenId* masked_;
  uint32_t* history_;  // [vocab] or null
  TopToken* tops_;
  const SampleRow& row_;
  const int vocab_;
  const int thread_;
  uint64_t* histogram_;  // [kBins]
  uint64_t* partial_;    // [kWarps]
  uint64_t* found_;      // [2]
};

__global__ void __launch_bounds__(kThreads, 2)
    SampleKernel(SampleInputs inputs, const SampleRow* rows, float* scratch, SampledRow* results, TopToken* tops) {
  const int64_t row = blockIdx.x;
  RowSampler sampler(inputs, rows[row], scratch + row * inputs.vocab, tops + row * kMaxTopTokens);
  sampler.Run(results + row);
}

// A block is one history.
__global__ void __launch_bounds__(kThreads)
    StartHistoryKernel(const HistoryStart* starts, const SeenToken* tokens, int vocab, uint32_t* histories) {
  const HistoryStart start = starts[blockIdx.x];
  uint32_t* history = histories + int64_t{start.history} * vocab;
  for (int id = static_cast<int>(threadIdx.x); id < vocab; id += kThreads) history[id] = 0;
  BlockBarrier();
  for (int i = static_cast<int>(threadIdx.x); i < start.count; i += kThreads) {
    const SeenToken token = tokens[start.first + i];
    history[token.id] = token.word;
  }
}

}  // namespace

Error Sample(const SampleInputs& inputs, const SampleRow* rows, int64_t row_count, float* scratch, SampledRow* results,
             TopToken* tops, Stream stream) {
  const LaunchShape shape{dim3(static_cast<unsigned>(row_count)), dim3(kThreads), RowSampler::shared_bytes(), stream};
  return Launch(SampleKernel, shape, inputs, rows, scratch, results, tops);
}

Error StartHistories(const HistoryStart* starts, int64_t count, const SeenToken* tokens, int32_t vocab,
                     uint32_t* histories, Stream stream) {
  return Launch(StartHistoryKernel, {dim3(static_cast<unsigned>(count)), dim3(kThreads), 0, stream}, starts, tokens,
                vocab, histories);
}

}  // namespace baton::cuda
