#include "common/engine/text_quality.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "kernels/aligned_buffer.h"

namespace baton {
namespace {

constexpr uint32_t kRowsAtATime = 32;  // logits of a step

double LogProbability(std::span<const float> logits, TokenId token) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - highest);
  return double{logits[token]} - highest - std::log(sum);
}

}  // namespace

double TextPrediction::Perplexity() const {
  const double sum = std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0);
  return std::exp(-sum / static_cast<double>(log_probabilities.size()));
}

double Agreement(const TextPrediction& a, const TextPrediction& b) {
  uint64_t equal = 0;
  for (size_t i = 0; i < a.best.size(); ++i) equal += a.best[i] == b.best[i] ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(a.best.size());
}

absl::StatusOr<TextPrediction> PredictText(std::shared_ptr<const CpuWeights> weights, std::span<const TokenId> tokens,
                                           uint32_t window, int threads, const PredictProgress& progress) {
  window = std::min(window, weights->config.max_length);
  if (tokens.size() < 2 || window < 2) {
    return InvalidArgument("%d tokens in windows of %d: nothing to predict", tokens.size(), window);
  }
  const KvLayout layout = MakeKvLayout(weights->config, DType::kF32);
  std::vector<BlockId> blocks(layout.BlocksFor(window));
  std::iota(blocks.begin(), blocks.end(), BlockId{0});
  const AlignedBuffer pool = ZeroedFloats(blocks.size() * layout.BytesPerBlock() / sizeof(float));
  BATON_ASSIGN_OR_RETURN(
      const auto runner,
      CpuRunner::Create(std::move(weights), layout, {pool.data(), pool.size()},
                        {.threads = threads, .max_step_tokens = kRowsAtATime, .max_batch = kRowsAtATime}));
  TextPrediction out;
  std::vector<StepSequence> batch;
  std::vector<std::span<float>> logits(kRowsAtATime);
  for (size_t first = 0; first + 1 < tokens.size(); first += window) {
    const std::span<const TokenId> text = tokens.subspan(first, std::min<size_t>(window, tokens.size() - first));
    for (size_t begin = 0; begin + 1 < text.size(); begin += kRowsAtATime) {
      const size_t end = std::min(begin + kRowsAtATime, text.size() - 1);
      // A step gives the logits of each sequence's last token: every token is a sequence of its own, all on one table.
      batch.clear();
      for (size_t i = begin; i < end; ++i) {
        batch.push_back({text.subspan(i, 1), static_cast<uint32_t>(i), blocks, true});
      }
      BATON_RETURN_IF_ERROR(runner->Step(batch, logits));
      for (size_t i = begin; i < end; ++i) {
        const std::span<const float> row = logits[i - begin];
        out.log_probabilities.push_back(LogProbability(row, text[i + 1]));
        out.best.push_back(static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin()));
      }
      if (progress) progress(first + end, tokens.size());
    }
  }
  return out;
}

}  // namespace baton
