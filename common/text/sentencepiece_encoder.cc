#include "common/text/sentencepiece_encoder.h"

#include <algorithm>
#include <utility>

#include "common/text/utf8.h"

namespace baton {

SentencePieceEncoder::SentencePieceEncoder(std::vector<ScoredPiece> pieces, const std::array<TokenId, 256>& byte_ids,
                                           TokenId unknown_id)
    : byte_ids_(byte_ids), unknown_id_(unknown_id) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const ScoredPiece& a, const ScoredPiece& b) { return a.score > b.score; });
  pieces_.reserve(pieces.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    // Equal scores keep equal ranks: then the leftmost pair goes first.
    if (i > 0 && pieces[i].score < pieces[i - 1].score) ++rank;
    pieces_.emplace(std::move(pieces[i].text), Merge{rank, pieces[i].id});
  }
}

absl::Status SentencePieceEncoder::Encode(std::string_view piece, EncodeScratch* scratch,
                                          std::vector<TokenId>* ids) const {
  SymbolMerger& merger = scratch->merger;
  merger.Clear();
  for (size_t i = 0; i < piece.size();) {
    const size_t length = CharacterAt(piece, i).length;
    const auto it = pieces_.find(piece.substr(i, length));
    merger.Add(static_cast<uint32_t>(i), static_cast<uint32_t>(length), it == pieces_.end() ? kNoToken : it->second.id);
    i += length;
  }
  const auto find = [&](const Symbol& left, const Symbol& right, Merge* merge) {
    const auto it = pieces_.find(piece.substr(left.begin, left.length + right.length));
    if (it == pieces_.end()) return false;
    *merge = it->second;
    return true;
  };
  BATON_RETURN_IF_ERROR(merger.Run(find, scratch->cancelled));
  for (int32_t i = 0; i >= 0; i = merger.symbols()[i].next) {
    const Symbol& symbol = merger.symbols()[i];
    if (symbol.id != kNoToken) {
      ids->push_back(symbol.id);
      continue;
    }
    for (const char c : piece.substr(symbol.begin, symbol.length)) {
      const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
      if (id == kNoToken && unknown_id_ == kNoToken) {
        return InvalidArgument("text has a character (byte %d of a piece) that this vocabulary cannot spell",
                               symbol.begin);
      }
      ids->push_back(id == kNoToken ? unknown_id_ : id);
      if (id == kNoToken) break;  // one unknown token for the whole character
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
