#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/text/piece_encoder.h"
#include "common/text/text_map.h"

namespace baton {

// What a BpeEncoder is made from.
struct BpeOptions {
  bool byte_level = false;     // symbols are bytes, and spellings use GPT-2's byte alphabet
  bool ignore_merges = false;  // a piece that is itself in the vocabulary is taken whole
  bool byte_fallback = false;  // an unknown character becomes its "<0xNN>" tokens
  bool fuse_unknown = false;   // neighbouring unknown characters share one unknown token
  TokenId unknown_id = kNoToken;
};

// Byte-pair encoding by merge rank (Sennrich et al. 2016).
class BpeEncoder : public PieceEncoder {
 public:
  using Options = BpeOptions;
  struct SpelledToken {
    std::string spelling;
    TokenId id;
  };

  // `merges` in rank order, spelled as in the vocabulary. Merges that would make one of `excluded` (control tokens) are
  // dropped: text must not spell them. INVALID_ARGUMENT, with its rank, for a merge whose sides or result are not in
  // the vocabulary. Tokens without a merge path are fine.
  static absl::StatusOr<BpeEncoder> Create(const std::vector<SpelledToken>& vocabulary,
                                           const std::vector<std::pair<std::string, std::string>>& merges,
                                           const std::vector<bool>& excluded, const Options& options);

  absl::Status Encode(std::string_view piece, EncodeScratch* scratch, std::vector<TokenId>* ids) const override;

 private:
  explicit BpeEncoder(const Options& options) : options_(options) {}

  void AddSymbols(std::string_view piece, SymbolMerger* merger) const;

  Options options_;
  // Token bytes as they stand in a piece, to ids.
  TextMap<TokenId> token_ids_;
  absl::flat_hash_map<uint64_t, Merge> merges_;  // by left id << 32 | right id
  std::array<TokenId, 256> byte_ids_;            // byte-level: the byte's symbol; else its "<0xNN>" token; or kNoToken
};

}  // namespace baton
