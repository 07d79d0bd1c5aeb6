#include "common/text/bpe_encoder.h"

#include <algorithm>
#include <optional>

#include "common/text/byte_alphabet.h"
#include "common/text/utf8.h"

namespace baton {
namespace {

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

absl::StatusOr<BpeEncoder> BpeEncoder::Create(const std::vector<SpelledToken>& vocabulary,
                                              const std::vector<std::pair<std::string, std::string>>& merges,
                                              const std::vector<bool>& excluded, const Options& options) {
  BpeEncoder encoder(options);
  TextMap<TokenId> by_spelling;
  by_spelling.reserve(vocabulary.size());
  encoder.token_ids_.reserve(vocabulary.size());
  const auto is_excluded = [&](TokenId id) { return id < static_cast<TokenId>(excluded.size()) && excluded[id]; };
  for (const auto& [spelling, id] : vocabulary) {
    by_spelling.emplace(spelling, id);
    if (is_excluded(id)) continue;
    std::optional<std::string> bytes = options.byte_level ? BytesOfSpelling(spelling) : spelling;
    if (bytes && !bytes->empty()) encoder.token_ids_.emplace(*std::move(bytes), id);
  }

  encoder.merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto a = by_spelling.find(left), b = by_spelling.find(right), ab = by_spelling.find(left + right);
    if (a == by_spelling.end() || b == by_spelling.end() || ab == by_spelling.end()) {
      return InvalidArgument("merge %d (\"%s\" \"%s\") has a side or a result that is not in the vocabulary", rank,
                             left, right);
    }
    if (is_excluded(ab->second)) continue;
    // Of two equal merges the later one counts, as in the library these files come from.
    encoder.merges_[PairKey(a->second, b->second)] = {static_cast<uint32_t>(rank), ab->second};
  }

  encoder.byte_ids_.fill(kNoToken);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelling =
        options.byte_level ? std::string(1, static_cast<char>(byte)) : absl::StrFormat("<0x%02X>", byte);
    const auto it = encoder.token_ids_.find(spelling);
    if (it != encoder.token_ids_.end()) encoder.byte_ids_[byte] = it->second;
  }
  return encoder;
}

void BpeEncoder::AddSymbols(std::string_view piece, SymbolMerger* merger) const {
  const auto add_bytes = [&](size_t begin, size_t length) {
    for (size_t i = begin; i < begin + length; ++i) {
      merger->Add(static_cast<uint32_t>(i), 1, byte_ids_[static_cast<uint8_t>(piece[i])]);
    }
  };
  const auto has_bytes = [&](size_t begin, size_t length) {
    const std::string_view bytes = piece.substr(begin, length);
    return std::all_of(bytes.begin(), bytes.end(), [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
  };
  if (options_.byte_level) return add_bytes(0, piece.size());
  for (size_t i = 0; i < piece.size();) {
    const size_t length = CharacterAt(piece, i).length;
    const auto token = token_ids_.find(piece.substr(i, length));
    if (token != token_ids_.end()) {
      merger->Add(static_cast<uint32_t>(i), static_cast<uint32_t>(length), token->second);
    } else if (options_.byte_fallback && has_bytes(i, length)) {
      add_bytes(i, length);
    } else {
      merger->Add(static_cast<uint32_t>(i), static_cast<uint32_t>(length), kNoToken);
    }
    i += length;
  }
}

absl::Status BpeEncoder::Encode(std::string_view piece, EncodeScratch* scratch, std::vector<TokenId>* ids) const {
  if (options_.ignore_merges) {
    const auto token = token_ids_.find(piece);
    if (token != token_ids_.end()) {
      ids->push_back(token->second);
      return absl::OkStatus();
    }
  }
  SymbolMerger& merger = scratch->merger;
  merger.Clear();
  AddSymbols(piece, &merger);
  const auto find = [this](const Symbol& left, const Symbol& right, Merge* merge) {
    if (left.id == kNoToken || right.id == kNoToken) return false;
    const auto it = merges_.find(PairKey(left.id, right.id));
    if (it == merges_.end()) return false;
    *merge = it->second;
    return true;
  };
  BATON_RETURN_IF_ERROR(merger.Run(find, scratch->cancelled));
  bool after_unknown = false;
  for (int32_t i = 0; i >= 0; i = merger.symbols()[i].next) {
    const Symbol& symbol = merger.symbols()[i];
    const bool unknown = symbol.id == kNoToken;
    if (!unknown) {
      ids->push_back(symbol.id);
    } else if (options_.unknown_id == kNoToken) {
      return InvalidArgument("text has a character (byte %d of a piece) that this vocabulary cannot spell",
                             symbol.begin);
    } else if (!(options_.fuse_unknown && after_unknown)) {
      ids->push_back(options_.unknown_id);
    }
    after_unknown = unknown;
  }
  return absl::OkStatus();
}

}  // namespace baton
