#pragma once

// Text to token ids and back, for one model's vocabulary.
//
// Reads Hugging Face tokenizer.json (byte-level BPE, and Metaspace or Prepend+Replace BPE with byte fallback) and GGUF
// vocabularies ("gpt2" and "llama" kinds). A component it does not know is refused by name, never skipped. The
// "truncation" and "padding" sections of tokenizer.json are training settings and have no effect.
//
// What never happens: text that a user wrote becoming a control token. A control token is one marked special
// (tokenizer.json, tokenizer_config.json) or of type control or unknown (GGUF); added tokens without that mark, such as
// Qwen's "<think>", are ordinary text with an id of their own and are found in every text.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/base/text_assets.h"
#include "common/text/text_segment.h"

namespace baton {

struct EncodeOptions {
  // Add what the model's post-processor adds around a plain completion (BOS, EOS); a BOS that is there already is not
  // doubled. Rendered chat templates write their own: pass false for them.
  bool add_special_tokens = true;
  // Read control tokens in the text. EncodeSegments ignores it: there trust decides.
  bool parse_special = false;
  // Polled every few thousand steps; true ends the call with CANCELLED. May be empty.
  std::function<bool()> cancelled;
};

struct DecodeOptions {
  bool skip_special_tokens = true;
  // SentencePiece-style vocabularies write a space before the first word; drop it at the very start. False for output
  // that continues a text. Byte-level vocabularies have no such space, there it means nothing.
  bool strip_leading_space = true;
};

struct TokenizerTables;

// Immutable after Create; every method may be called from any number of threads.
class Tokenizer {
 public:
  // INVALID_ARGUMENT: broken or contradictory assets. UNIMPLEMENTED: a component, by its name.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Create(const TextAssets& assets);
  ~Tokenizer();

  // Time grows about linearly with the text, stack use is constant. INVALID_ARGUMENT with the byte offset if `text` is
  // not valid UTF-8 (U+0000 is valid); CANCELLED.
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The ids of the concatenated text, except that a control token is only read where all its characters are trusted
  // (neighbouring trusted segments count as one). Pre-tokenization and merges do not see segment borders.
  // A control token that the model files mark `normalized` is looked for in the text as written, too.
  absl::StatusOr<std::vector<TokenId>> EncodeSegments(std::span<const TextSegment> segments,
                                                      const EncodeOptions& options) const;

  // Always valid UTF-8: every maximal ill-formed part becomes one U+FFFD. Unknown ids are skipped. The same text as a
  // Detokenizer gives in pieces.
  std::string Decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // One more than the largest id; ids between may be unused.
  int vocab_size() const;
  std::optional<TokenId> bos_id() const;
  std::optional<TokenId> eos_id() const;
  // By the token's own spelling in the vocabulary ("Ġthe", "▁the", "<|im_end|>").
  std::optional<TokenId> TokenToId(std::string_view spelling) const;
  // The spelling; empty for an unused id.
  std::string_view TokenText(TokenId id) const;
  // The bytes the token adds to a decoded text, which may be part of a character; empty for an unused id.
  std::string_view TokenBytes(TokenId id) const;
  // Whether `id` is a control token.
  bool IsSpecial(TokenId id) const;
  // Whether decoding drops one space at the very start.
  bool DropsLeadingSpace() const;

 private:
  explicit Tokenizer(std::unique_ptr<const TokenizerTables> tables);

  std::unique_ptr<const TokenizerTables> tables_;
};

}  // namespace baton
