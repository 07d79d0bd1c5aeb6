#pragma once

// The text of one choice as a client sees it: detokenized, cut at stop strings, with the tokens that belong to every
// piece. Not thread safe; one object per choice, fed with its token ids in order. Streamed and unary answers both come
// from here, so they agree.
//
// A token is released together with the last piece of its text, never earlier and never later, so all deltas together
// carry every token once, in order. Tokens of a cut stop string, and those without visible text, come with the
// delta that follows the text before them.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"

namespace baton {

struct OutputTextOptions {
  std::shared_ptr<const StopStrings> stops;  // null: none
  bool include_stop = false;                 // show the matched stop string or stop token
  bool skip_special_tokens = true;
  bool strip_leading_space = true;  // see DecodeOptions
  // Stop strings cannot match within the first so many tokens.
  int64_t min_tokens = 0;
  // Added to every text offset: the characters of an echoed prompt.
  int64_t first_text_offset = 0;
};

struct OutputToken {
  TokenId id = 0;
  int64_t index = 0;        // in the choice, from 0; the caller's logprob entries are found by it
  int64_t text_offset = 0;  // characters of text before the one that holds this token's first byte
};

struct OutputDelta {
  std::string text;                 // whole characters
  std::vector<OutputToken> tokens;  // whose text is now complete
  bool empty() const { return text.empty() && tokens.empty(); }
};

class OutputText {
 public:
  OutputText(std::shared_ptr<const Tokenizer> tokenizer, OutputTextOptions options);

  // The next sampled token. After ended() nothing more may be added.
  OutputDelta Add(TokenId id);

  // The token on which the model or a stop token id ended the choice. Counted, released, and shown only with
  // include_stop, and then only if it is no control token or those are not skipped. Ends the choice.
  OutputDelta AddStopToken(TokenId id);

  // The choice ended for another reason (length, abort): releases everything held. Empty after ended().
  OutputDelta Finish();

  // A stop string has matched, or Finish or AddStopToken was called.
  bool ended() const { return ended_; }
  // The stop string that ended the choice: found in the text, or spelled by a control token.
  const std::optional<std::string>& matched_stop() const { return matched_stop_; }
  // Tokens added, visible or not.
  int64_t token_count() const { return token_count_; }

 private:
  struct HeldToken {
    OutputToken token;
    int64_t text_end;  // characters of text through this token's last one; -1 while that one is incomplete
  };

  // Whether a stop string may complete within the first `token_count` tokens.
  bool CanStop(int64_t token_count) const;
  // `text` after the search for stop strings.
  std::string Match(const std::string& text);
  // Everything held back as text.
  std::string Flush();
  // The text that `id` completes; holds its token.
  std::string Decode(TokenId id);
  OutputDelta Release(std::string visible);
  OutputDelta End(std::string visible);

  std::shared_ptr<const Tokenizer> tokenizer_;
  OutputTextOptions options_;
  Detokenizer detokenizer_;
  std::optional<StopMatcher> matcher_;
  std::deque<HeldToken> held_;
  int64_t token_count_ = 0;
  int64_t decoded_characters_ = 0;  // given by the detokenizer
  int64_t sent_characters_ = 0;     // given to the client
  bool ended_ = false;
  std::optional<std::string> matched_stop_;
};

}  // namespace baton
