#pragma once

// Turns one piece of text into ids: byte-pair encoding driven by a list of merges (BpeEncoder) or by scores of pieces
// (SentencePieceEncoder).

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/text/merge_symbols.h"

namespace baton {

// Working memory of one Encode call, kept from piece to piece.
struct EncodeScratch {
  SymbolMerger merger;
  std::function<bool()> cancelled;  // may be empty
};

// Immutable; any number of threads, each with its own scratch.
class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;

  // Appends the ids of `piece`, not empty, valid UTF-8 unless the vocabulary is byte-level. CANCELLED.
  virtual absl::Status Encode(std::string_view piece, EncodeScratch* scratch, std::vector<TokenId>* ids) const = 0;
};

}  // namespace baton
