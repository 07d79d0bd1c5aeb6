#pragma once

// Everything a Tokenizer knows, whichever file it came from. Filled by the two loaders, constant afterwards.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/base/text_assets.h"
#include "common/text/added_tokens.h"
#include "common/text/normalizer.h"
#include "common/text/piece_encoder.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/text_map.h"
#include "common/text/token_decoder.h"

namespace baton {

struct TokenizerTables {
  struct Token {
    std::string spelling;
    std::string bytes;
    bool used = false;
    bool special = false;
  };

  std::vector<Token> tokens;  // by id
  TextMap<TokenId> ids;       // by spelling
  std::deque<AddedToken> added_tokens;
  absl::flat_hash_map<TokenId, AddedToken*> added_by_id;

  AddedTokenFinder raw_finder;         // added tokens found in raw text
  AddedTokenFinder normalized_finder;  // those marked `normalized`, found in normalized text
  AddedTokenFinder segment_finder;     // raw text of segments: raw_finder's tokens and all control tokens

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const PieceEncoder> encoder;
  bool drops_leading_space = false;

  std::vector<TokenId> prefix, suffix;  // added around a plain completion
  std::optional<TokenId> bos_id, eos_id;

  // Puts a token in `tokens` and `ids`. INVALID_ARGUMENT for an id that is negative, absurdly large, or taken by
  // another spelling.
  absl::Status SetToken(TokenId id, std::string_view spelling);
  // SetToken for an added token; a second one of the same id and content replaces the first one's flags.
  absl::Status SetAddedToken(AddedToken token);
  std::optional<TokenId> Find(std::string_view spelling) const;
  bool IsUsed(TokenId id) const { return id >= 0 && id < static_cast<TokenId>(tokens.size()) && tokens[id].used; }
  // Which ids are control tokens.
  std::vector<bool> SpecialIds() const;
  // Marks control tokens, fills in every token's bytes and builds the three finders, from `added_tokens`.
  absl::Status Finish(const TokenDecoder& decoder);
};

// Tokens with larger ids are refused: tables are indexed by id.
inline constexpr int64_t kMaxTokenId = (1 << 20) - 1;

absl::StatusOr<std::unique_ptr<TokenizerTables>> LoadTokenizerJson(const std::string& tokenizer_json,
                                                                   const std::string& tokenizer_config_json);
absl::StatusOr<std::unique_ptr<TokenizerTables>> LoadGgufVocabulary(const GgufVocabulary& vocabulary);

}  // namespace baton
