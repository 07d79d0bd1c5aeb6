#pragma once

// Keeps what an engine tells a request, and whether it kept the sink's contract. Thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/engine/request.h"

namespace baton {

class RecordingSink final : public EngineSink {
 public:
  // `first_index`: token index expected first, of every choice.
  explicit RecordingSink(std::map<uint32_t, uint32_t> first_index = {}) : next_index_(std::move(first_index)) {}

  void OnStarted(uint32_t cached_tokens) override;
  void OnPromptProgress(uint32_t tokens_done, std::span<const BlockId> blocks) override;
  void OnTokens(std::span<const ChoiceToken> tokens) override;
  void OnEnd(const absl::Status& status, const EngineTimings& timings) override;

  // Called by OnTokens, outside the lock.
  std::function<void()> on_tokens;

  // False when it has not ended within ten seconds.
  bool AwaitEnd();
  bool AwaitTokens(size_t count);
  bool ended() const;
  absl::Status status() const;
  EngineTimings timings() const;
  std::optional<uint32_t> cached_tokens() const;
  std::vector<uint32_t> progress() const;
  std::vector<BlockId> prompt_blocks() const;
  std::vector<TokenId> ids(uint32_t choice = 0) const;
  FinishReason finish(uint32_t choice = 0) const;
  size_t token_count() const;
  // Empty, or what the engine did wrong.
  std::string broken_contract() const;

 private:
  void Expect(bool holds, const char* what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<uint32_t, uint32_t> next_index_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::vector<SampledToken>> tokens_ ABSL_GUARDED_BY(mutex_);
  size_t token_count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<uint32_t> cached_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<BlockId> blocks_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  EngineTimings timings_ ABSL_GUARDED_BY(mutex_);
  std::string broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
