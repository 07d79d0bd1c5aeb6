#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/piece_encoder.h"
#include "common/text/text_map.h"

namespace baton {

// SentencePiece's BPE: any two neighbours whose text is a piece of the vocabulary may merge, the highest score first
// (Kudo and Richardson 2018). Spaces are U+2581 already.
class SentencePieceEncoder : public PieceEncoder {
 public:
  struct ScoredPiece {
    std::string text;
    float score;
    TokenId id;
  };

  // `pieces`: what text may become (no control, unknown or byte tokens). `byte_ids`: the tokens of raw bytes, for
  // characters outside the vocabulary; kNoToken where there is none, then `unknown_id` stands in.
  SentencePieceEncoder(std::vector<ScoredPiece> pieces, const std::array<TokenId, 256>& byte_ids, TokenId unknown_id);

  absl::Status Encode(std::string_view piece, EncodeScratch* scratch, std::vector<TokenId>* ids) const override;

 private:
  TextMap<Merge> pieces_;  // rank 0: the highest score
  std::array<TokenId, 256> byte_ids_;
  TokenId unknown_id_;
};

}  // namespace baton
