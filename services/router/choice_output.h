#pragma once

// One choice at the router: accepts tokens from workers in order, each index once, and turns them into what the client
// sees. Not thread-safe.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/sampling/sampled_token.h"
#include "common/text/output_text.h"

namespace baton {

class ChoiceOutput {
 public:
  ChoiceOutput(uint32_t prompt_index, uint32_t index, std::shared_ptr<const Tokenizer> tokenizer,
               OutputTextOptions options, bool logprobs);

  struct Accepted {
    bool fresh = false;                    // false: an index that was accepted before; nothing else is set
    bool stopped_by_text = false;          // a stop string matched: the worker does not know and must be told
    std::optional<v1::ChoiceDelta> delta;  // what to send; none while text is held back
  };
  // INTERNAL when an index is missing or the worker could not sample.
  absl::StatusOr<Accepted> Accept(uint32_t token_index, SampledToken token);

  uint32_t index() const { return index_; }
  bool ended() const { return ended_; }
  // Accepted from workers, held-back ones included.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  uint32_t token_count() const { return static_cast<uint32_t>(tokens_.size()); }

 private:
  v1::ChoiceDelta ToProto(const OutputDelta& delta);

  const uint32_t prompt_index_;
  const uint32_t index_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool wants_logprobs_;
  OutputText text_;
  std::vector<TokenId> tokens_;
  std::vector<SampledToken> held_;  // with logprobs: tokens not yet released
  uint32_t released_ = 0;           // tokens sent to the client
  bool ended_ = false;
};

}  // namespace baton
