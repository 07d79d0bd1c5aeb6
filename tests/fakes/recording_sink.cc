#include "tests/fakes/recording_sink.h"

#include <algorithm>

namespace baton {

void RecordingSink::Expect(bool holds, const char* what) {
  if (!holds && broken_.empty()) broken_ = what;
}

void RecordingSink::OnStarted(uint32_t cached_tokens) {
  absl::MutexLock lock(&mutex_);
  Expect(!ended_, "OnStarted after OnEnd");
  Expect(!cached_.has_value(), "OnStarted twice");
  cached_ = cached_tokens;
}

void RecordingSink::OnPromptProgress(uint32_t tokens_done, std::span<const BlockId> blocks) {
  absl::MutexLock lock(&mutex_);
  Expect(!ended_, "OnPromptProgress after OnEnd");
  Expect(cached_.has_value(), "OnPromptProgress before OnStarted");
  Expect(progress_.empty() || tokens_done > progress_.back(), "progress went back");
  progress_.push_back(tokens_done);
  blocks_.assign(blocks.begin(), blocks.end());
}

void RecordingSink::OnTokens(std::span<const ChoiceToken> tokens) {
  {
    absl::MutexLock lock(&mutex_);
    Expect(!ended_, "OnTokens after OnEnd");
    Expect(cached_.has_value(), "OnTokens before OnStarted");
    for (const ChoiceToken& token : tokens) {
      Expect(token.token_index == next_index_[token.choice]++, "a token index was skipped or repeated");
      auto& choice = tokens_[token.choice];
      Expect(choice.empty() || choice.back().finish == FinishReason::kNone, "a token after the finish");
      choice.push_back(token.token);
      ++token_count_;
    }
  }
  if (on_tokens) on_tokens();
}

void RecordingSink::OnEnd(const absl::Status& status, const EngineTimings& timings) {
  absl::MutexLock lock(&mutex_);
  Expect(!ended_, "OnEnd twice");
  ended_ = true;
  status_ = status;
  timings_ = timings;
}

bool RecordingSink::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&ended_), absl::Seconds(60));
}

bool RecordingSink::AwaitTokens(size_t count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return token_count_ >= count; };
  return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(60));
}

bool RecordingSink::ended() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

absl::Status RecordingSink::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

EngineTimings RecordingSink::timings() const {
  absl::MutexLock lock(&mutex_);
  return timings_;
}

std::optional<uint32_t> RecordingSink::cached_tokens() const {
  absl::MutexLock lock(&mutex_);
  return cached_;
}

std::vector<uint32_t> RecordingSink::progress() const {
  absl::MutexLock lock(&mutex_);
  return progress_;
}

std::vector<BlockId> RecordingSink::prompt_blocks() const {
  absl::MutexLock lock(&mutex_);
  return blocks_;
}

std::vector<TokenId> RecordingSink::ids(uint32_t choice) const {
  absl::MutexLock lock(&mutex_);
  std::vector<TokenId> ids;
  const auto entry = tokens_.find(choice);
  if (entry == tokens_.end()) return ids;
  for (const SampledToken& token : entry->second) ids.push_back(token.id);
  return ids;
}

FinishReason RecordingSink::finish(uint32_t choice) const {
  absl::MutexLock lock(&mutex_);
  const auto entry = tokens_.find(choice);
  return entry == tokens_.end() ? FinishReason::kNone : entry->second.back().finish;
}

size_t RecordingSink::token_count() const {
  absl::MutexLock lock(&mutex_);
  return token_count_;
}

std::string RecordingSink::broken_contract() const {
  absl::MutexLock lock(&mutex_);
  return broken_;
}

}  // namespace baton
