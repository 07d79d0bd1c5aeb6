#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/model/assemble.h"

namespace baton::model {
namespace {

constexpr uint64_t kSampleBytes = 256;
constexpr uint64_t kSamples = 16;

absl::Status AddSample(const weights::Tensor& tensor, uint64_t offset, Hash128* hash) {
  std::byte bytes[kSampleBytes];
  const uint64_t count = std::min<uint64_t>(kSampleBytes, tensor.data.size() - offset);
  if (tensor.file) {
    BATON_RETURN_IF_ERROR(tensor.file->Read(tensor.file_offset + offset, {bytes, static_cast<size_t>(count)}));
  } else {
    std::memcpy(bytes, tensor.data.data() + offset, count);
  }
  *hash = HashBytes({bytes, static_cast<size_t>(count)}, *hash);
  return absl::OkStatus();
}

// Small tensors whole; of others samples at even distances, first and last bytes included.
absl::Status AddTensor(const weights::Tensor& tensor, Hash128* hash) {
  *hash = HashText(tensor.name + " " + tensor.dtype_name + " " + weights::ShapeText(tensor.shape), *hash);
  const uint64_t size = tensor.data.size();
  if (size <= kSamples * kSampleBytes) {
    for (uint64_t offset = 0; offset < size; offset += kSampleBytes) {
      BATON_RETURN_IF_ERROR(AddSample(tensor, offset, hash));
    }
    return absl::OkStatus();
  }
  const uint64_t step = (size - kSampleBytes) / (kSamples - 1);
  for (uint64_t i = 0; i < kSamples; ++i) {
    const uint64_t offset = i + 1 == kSamples ? size - kSampleBytes : i * step;
    BATON_RETURN_IF_ERROR(AddSample(tensor, offset, hash));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Hash128> WeightsIdentity(const ModelConfig& config, const weights::TensorMap& tensors,
                                        const LoadProgress& progress) {
  std::string numbers = absl::StrFormat("%d %d %d %a %d %d", config.heads, config.kv_heads, config.head_dim,
                                        static_cast<double>(config.rms_norm_eps), config.tied_head, config.vocab);
  for (const uint32_t window : config.windows) numbers += absl::StrFormat(" %d", window);
  const RopeTable rope = MakeRopeTable(config.rope, config.head_dim);
  for (const float frequency : rope.inverse_frequencies) numbers += absl::StrFormat(" %a", frequency);
  numbers += absl::StrFormat(" %a", rope.attention_scale);
  Hash128 hash = HashText(numbers);

  uint64_t total = 0, done = 0;
  for (const auto& [name, tensor] : tensors) total += tensor.data.size();
  for (const auto& [name, tensor] : tensors) {
    BATON_RETURN_IF_ERROR(AddTensor(tensor, &hash));
    done += tensor.data.size();
    if (progress) progress(done, total);
  }
  return hash;
}

}  // namespace baton::model
