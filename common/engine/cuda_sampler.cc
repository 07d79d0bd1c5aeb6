#include "common/engine/cuda_sampler.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/engine/cuda_status.h"

namespace baton {
namespace {

static_assert(cuda::kMaxTopTokens >= kMaxTopLogprobs);

// Tokens of histories that are sent at once, at least; any one history is.
constexpr size_t kSeenAtOnce = 64 << 10;

absl::Status AllocateTo(device::Memory& memory, device::MemoryKind kind, uint64_t bytes) {
  BATON_ASSIGN_OR_RETURN(memory, device::Memory::Allocate(kind, bytes));
  return absl::OkStatus();
}

absl::Status AllocatePair(device::Memory& host, device::Memory& device, uint64_t bytes) {
  BATON_RETURN_IF_ERROR(AllocateTo(host, device::MemoryKind::kPinned, bytes));
  return AllocateTo(device, device::MemoryKind::kDevice, bytes);
}

}  // namespace

template <typename T>
absl::Status CudaSampler::Input<T>::Allocate(size_t count) {
  return AllocatePair(host, device, count * sizeof(T));
}

template <typename T>
absl::Status CudaSampler::Input<T>::Send(const device::Stream& stream) const {
  return used == 0 ? absl::OkStatus() : stream.Copy(device.data(), host.data(), used * sizeof(T));
}

template <typename T>
absl::Status CudaSampler::Output<T>::Allocate(size_t count) {
  return AllocatePair(host, device, count * sizeof(T));
}

template <typename T>
absl::Status CudaSampler::Output<T>::Read(size_t count, const device::Stream& stream) const {
  return stream.Copy(host.data(), device.data(), count * sizeof(T));
}

absl::StatusOr<std::unique_ptr<CudaSampler>> CudaSampler::Create(uint32_t vocab, uint32_t at_once) {
  std::unique_ptr<CudaSampler> sampler(new CudaSampler(vocab));
  BATON_RETURN_IF_ERROR(sampler->Allocate(at_once));
  return sampler;
}

CudaSampler::Counts CudaSampler::CountsFor(uint32_t vocab, uint32_t at_once) {
  return {.rows = at_once,
          .biases = size_t{at_once} * kMaxLogitBias,
          .masked = size_t{at_once} * 2 * kMaxStopTokenIds,  // the caller's and the model's
          .seen = std::max<size_t>(vocab, kSeenAtOnce),
          .tops = size_t{at_once} * cuda::kMaxTopTokens,
          .words = size_t{at_once} * vocab};
}

uint64_t CudaSampler::DeviceBytes(uint32_t vocab, uint32_t at_once) {
  const Counts counts = CountsFor(vocab, at_once);
  return counts.rows * (sizeof(cuda::SampleRow) + sizeof(cuda::HistoryStart) + sizeof(cuda::SampledRow)) +
         counts.biases * sizeof(cuda::LogitBias) + counts.masked * sizeof(TokenId) +
         counts.seen * sizeof(cuda::SeenToken) + counts.tops * sizeof(cuda::TopToken) +
         counts.words * (sizeof(float) + sizeof(uint32_t));
}

absl::Status CudaSampler::Allocate(uint32_t at_once) {
  const Counts counts = CountsFor(vocab_, at_once);
  BATON_RETURN_IF_ERROR(rows_.Allocate(counts.rows));
  BATON_RETURN_IF_ERROR(biases_.Allocate(counts.biases));
  BATON_RETURN_IF_ERROR(masked_.Allocate(counts.masked));
  BATON_RETURN_IF_ERROR(starts_.Allocate(counts.rows));
  BATON_RETURN_IF_ERROR(seen_.Allocate(counts.seen));
  BATON_RETURN_IF_ERROR(results_.Allocate(counts.rows));
  BATON_RETURN_IF_ERROR(tops_.Allocate(counts.tops));
  BATON_RETURN_IF_ERROR(AllocateTo(scratch_, device::MemoryKind::kDevice, counts.words * sizeof(float)));
  BATON_RETURN_IF_ERROR(AllocateTo(histories_, device::MemoryKind::kDevice, counts.words * sizeof(uint32_t)));
  pending_.reserve(at_once);
  of_history_.resize(at_once);
  history_of_.reserve(2 * size_t{at_once});
  return absl::OkStatus();
}

absl::Status CudaSampler::Enqueue(std::span<const StepSequence> batch, const float* logits,
                                  const device::Stream& stream, const std::function<absl::Status()>& wait) {
  Clear();
  int32_t row = 0;
  for (const StepSequence& sequence : batch) {
    if (!sequence.needs_logits()) continue;
    for (StepSample& sample : sequence.samples) {
      if (!HasRoomFor(*sample.sampler)) {
        BATON_RETURN_IF_ERROR(Launch(logits, stream));
        BATON_RETURN_IF_ERROR(wait());
        Finish();
      }
      Add(sample, row);
    }
    ++row;
  }
  return Launch(logits, stream);
}

// A row's own biases and masked tokens always have room.
bool CudaSampler::HasRoomFor(const Sampler& sampler) const {
  return rows_.room() > 0 && sampler.history().size() <= seen_.room();
}

void CudaSampler::Add(StepSample& sample, int32_t logits_row) {
  const Sampler& sampler = *sample.sampler;
  const SamplingParams& params = sampler.params();
  const bool penalizes =
      params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f;
  cuda::SampleRow row{.logits = logits_row,
                      .history = penalizes ? HistoryFor(sampler) : -1,
                      .seed = params.seed,
                      .choice_index = sampler.choice_index(),
                      .token_index = sampler.generated(),
                      .temperature = params.temperature,
                      .top_p = params.top_p,
                      .min_p = params.min_p,
                      .top_k = params.top_k,
                      .repetition_penalty = params.repetition_penalty,
                      .presence_penalty = params.presence_penalty,
                      .frequency_penalty = params.frequency_penalty,
                      .top = params.logprobs ? static_cast<int32_t>(*params.logprobs) : -1,
                      .first_bias = static_cast<int32_t>(biases_.used),
                      .biases = static_cast<int32_t>(params.logit_bias.size()),
                      .first_masked = static_cast<int32_t>(masked_.used),
                      .masked = static_cast<int32_t>(sampler.masked().size())};
  BATON_CHECK(params.logit_bias.size() <= biases_.room() && sampler.masked().size() <= masked_.room());
  for (const auto& [id, bias] : params.logit_bias) biases_.Add({id, bias});
  for (const TokenId id : sampler.masked()) masked_.Add(id);
  rows_.Add(row);
  pending_.push_back({&sample, row.history});
  wants_tops_ = wants_tops_ || row.top > 0;
}

// Where the choice's history is; has it sent when it is not there.
int32_t CudaSampler::HistoryFor(const Sampler& sampler) {
  std::weak_ptr<const void> owner = sampler.identity();
  const void* key = owner.lock().get();
  const auto found = history_of_.find(key);
  const int32_t index = found == history_of_.end() ? LeastNeededHistory() : found->second;
  History& history = of_history_[index];
  history.used = launch_;
  if (history.key == key && history.generated == sampler.generated()) return index;

  if (history.key != key) {
    history_of_.erase(history.key);
    history_of_.emplace(key, index);
  }
  history.owner = std::move(owner);  // keeps the address from being another's
  history.key = key;
  history.generated = sampler.generated();
  starts_.Add({index, static_cast<int32_t>(seen_.used), static_cast<int32_t>(sampler.history().size())});
  for (const auto& [id, count] : sampler.history()) seen_.Add({id, cuda::kSeen | count});
  return index;
}

// Of no choice that is left, else the one not used for longest. There are as many as a launch has rows, so there is one
// that this launch does not use.
int32_t CudaSampler::LeastNeededHistory() const {
  const auto rank = [this](const History& history) {
    return history.used != launch_ && history.owner.expired() ? 0 : history.used;
  };
  const auto least = std::min_element(of_history_.begin(), of_history_.end(),
                                      [&](const History& a, const History& b) { return rank(a) < rank(b); });
  return static_cast<int32_t>(least - of_history_.begin());
}

absl::Status CudaSampler::Launch(const float* logits, const device::Stream& stream) {
  if (pending_.empty()) return absl::OkStatus();
  const size_t count = pending_.size();
  const auto vocab = static_cast<int32_t>(vocab_);
  BATON_RETURN_IF_ERROR(starts_.Send(stream));
  BATON_RETURN_IF_ERROR(seen_.Send(stream));
  BATON_RETURN_IF_ERROR(
      Enqueued(cuda::StartHistories(starts_.device.as<cuda::HistoryStart>(), static_cast<int64_t>(starts_.used),
                                    seen_.device.as<cuda::SeenToken>(), vocab, histories_.as<uint32_t>(), stream.get()),
               "enqueueing sampling"));
  BATON_RETURN_IF_ERROR(rows_.Send(stream));
  BATON_RETURN_IF_ERROR(biases_.Send(stream));
  BATON_RETURN_IF_ERROR(masked_.Send(stream));
  const cuda::SampleInputs inputs{.logits = logits,
                                  .stride = vocab,
                                  .vocab = vocab,
                                  .biases = biases_.device.as<cuda::LogitBias>(),
                                  .masked = masked_.device.as<TokenId>(),
                                  .histories = histories_.as<uint32_t>()};
  BATON_RETURN_IF_ERROR(Enqueued(
      cuda::Sample(inputs, rows_.device.as<cuda::SampleRow>(), static_cast<int64_t>(count), scratch_.as<float>(),
                   results_.device.as<cuda::SampledRow>(), tops_.device.as<cuda::TopToken>(), stream.get()),
      "enqueueing sampling"));
  BATON_RETURN_IF_ERROR(results_.Read(count, stream));
  return wants_tops_ ? tops_.Read(count * cuda::kMaxTopTokens, stream) : absl::OkStatus();
}

void CudaSampler::Finish() {
  for (size_t i = 0; i < pending_.size(); ++i) {
    const auto& [sample, history] = pending_[i];
    const cuda::SampledRow& result = results_.host.as<cuda::SampledRow>()[i];
    SampledToken& token = sample->token;
    token = {};
    if (result.id < 0) {
      token.finish = FinishReason::kError;
      continue;
    }
    token.id = result.id;
    token.logprob = result.logprob;
    const cuda::TopToken* tops = tops_.host.as<cuda::TopToken>() + i * cuda::kMaxTopTokens;
    token.top.reserve(static_cast<size_t>(result.top_count));
    for (int32_t top = 0; top < result.top_count; ++top) token.top.push_back({tops[top].id, tops[top].logprob});
    token.finish = sample->sampler->Record(result.id);
    if (history >= 0) ++of_history_[history].generated;
  }
  Clear();
}

void CudaSampler::Clear() {
  ++launch_;
  pending_.clear();
  wants_tops_ = false;
  rows_.used = biases_.used = masked_.used = starts_.used = seen_.used = 0;
}

}  // namespace baton
