// Loads the vocabulary of a GGUF file.

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "common/text/bpe_encoder.h"
#include "common/text/gguf_pre_tokenizer.h"
#include "common/text/sentencepiece_encoder.h"
#include "common/text/tokenizer_tables.h"
#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";
enum Type : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

int32_t TypeOf(const GgufVocabulary& vocabulary, size_t id) {
  return vocabulary.types.empty() ? kNormal : vocabulary.types[id];
}

absl::Status CheckSizes(const GgufVocabulary& vocabulary) {
  const size_t size = vocabulary.tokens.size();
  if (size == 0) return InvalidArgument("GGUF vocabulary has no tokens");
  if (size > kMaxTokenId)
    return InvalidArgument("GGUF vocabulary has %d tokens, at most %d are taken", size, kMaxTokenId);
  if (!vocabulary.types.empty() && vocabulary.types.size() != size) {
    return InvalidArgument("GGUF vocabulary has %d tokens, but %d token types", size, vocabulary.types.size());
  }
  if (!vocabulary.scores.empty() && vocabulary.scores.size() != size) {
    return InvalidArgument("GGUF vocabulary has %d tokens, but %d scores", size, vocabulary.scores.size());
  }
  return absl::OkStatus();
}

absl::Status ReadTokens(const GgufVocabulary& vocabulary, TokenizerTables* tables) {
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string& text = vocabulary.tokens[i];
    if (FirstInvalidUtf8(text)) return InvalidArgument("GGUF token %d is not valid UTF-8", id);
    BATON_RETURN_IF_ERROR(tables->SetToken(id, text));
    const int32_t type = TypeOf(vocabulary, i);
    const bool special = type == kControl || type == kUnknown;
    if ((special || type == kUserDefined) && !text.empty()) {
      BATON_RETURN_IF_ERROR(tables->SetAddedToken({.id = id, .content = text, .special = special}));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TokenId>> CheckedId(std::optional<TokenId> id, const char* name,
                                                 const TokenizerTables& tables) {
  if (id && !tables.IsUsed(*id)) {
    return InvalidArgument("GGUF %s token is %d, the vocabulary has %d tokens", name, *id, tables.tokens.size());
  }
  return id;
}

absl::Status LoadByteLevel(const GgufVocabulary& vocabulary, const GgufPreTokenizer& pre, TokenizerTables* tables) {
  std::vector<BpeEncoder::SpelledToken> tokens;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (TypeOf(vocabulary, id) == kNormal) tokens.push_back({vocabulary.tokens[id], static_cast<TokenId>(id)});
  }
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(vocabulary.merges.size());
  for (const std::string& merge : vocabulary.merges) {
    const size_t space = merge.find(' ', 1);
    if (space == merge.npos) return InvalidArgument("GGUF merge %d is no pair of tokens", merges.size());
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  BpeOptions options;
  options.byte_level = true;
  options.ignore_merges = pre.ignore_merges;
  BATON_ASSIGN_OR_RETURN(auto encoder, BpeEncoder::Create(tokens, merges, tables->SpecialIds(), options));
  tables->encoder = std::make_unique<BpeEncoder>(std::move(encoder));
  tables->pre_tokenizer = pre.pre_tokenizer;
  if (pre.nfc) tables->normalizer = Normalizer({NormalizationForm::kNfc});
  return tables->Finish({.byte_level = true});
}

absl::Status LoadSentencePiece(const GgufVocabulary& vocabulary, TokenizerTables* tables) {
  std::vector<SentencePieceEncoder::ScoredPiece> pieces;
  std::array<TokenId, 256> byte_ids;
  byte_ids.fill(kNoToken);
  TokenId unknown = kNoToken;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const int32_t type = TypeOf(vocabulary, i);
    const int byte = ByteOfFallbackToken(vocabulary.tokens[i]);
    if (byte >= 0 && (type == kByte || vocabulary.types.empty())) {
      byte_ids[byte] = id;
    } else if (type == kNormal && !vocabulary.tokens[i].empty()) {
      const float score = vocabulary.scores.empty() ? 0.0f : vocabulary.scores[i];
      pieces.push_back({vocabulary.tokens[i], std::isnan(score) ? -std::numeric_limits<float>::infinity() : score, id});
    } else if (type == kUnknown) {
      unknown = id;
    }
  }
  unknown = vocabulary.unknown_id.value_or(unknown);
  if (unknown != kNoToken && !tables->IsUsed(unknown)) {
    return InvalidArgument("GGUF unknown token is %d, the vocabulary has %d tokens", unknown, tables->tokens.size());
  }
  tables->encoder = std::make_unique<SentencePieceEncoder>(std::move(pieces), byte_ids, unknown);
  const bool space_prefix = vocabulary.add_space_prefix.value_or(true);
  std::vector<Normalizer::Step> steps;
  if (space_prefix) steps.push_back(Normalizer::Prepend{std::string(kSpaceMark)});
  steps.push_back(Normalizer::Replace{{" ", nullptr}, std::string(kSpaceMark)});
  tables->normalizer = Normalizer(std::move(steps));
  TokenDecoder decoder;
  decoder.replacements.emplace_back(kSpaceMark, " ");
  decoder.byte_fallback = true;
  decoder.drops_leading_space = space_prefix;
  return tables->Finish(decoder);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenizerTables>> LoadGgufVocabulary(const GgufVocabulary& vocabulary) {
  BATON_RETURN_IF_ERROR(CheckSizes(vocabulary));
  auto tables = std::make_unique<TokenizerTables>();
  BATON_RETURN_IF_ERROR(ReadTokens(vocabulary, tables.get()));
  BATON_ASSIGN_OR_RETURN(tables->bos_id, CheckedId(vocabulary.bos_id, "BOS", *tables));
  BATON_ASSIGN_OR_RETURN(tables->eos_id, CheckedId(vocabulary.eos_id, "EOS", *tables));
  bool add_bos = false;
  if (vocabulary.model == "gpt2") {
    BATON_ASSIGN_OR_RETURN(const GgufPreTokenizer pre, MakeGgufPreTokenizer(vocabulary.pre));
    add_bos = pre.add_bos;
    BATON_RETURN_IF_ERROR(LoadByteLevel(vocabulary, pre, tables.get()));
  } else if (vocabulary.model == "llama") {
    add_bos = true;
    BATON_RETURN_IF_ERROR(LoadSentencePiece(vocabulary, tables.get()));
  } else {
    return Unimplemented("GGUF tokenizer model %s is not supported", vocabulary.model);
  }
  if (tables->bos_id && vocabulary.add_bos.value_or(add_bos)) tables->prefix.push_back(*tables->bos_id);
  if (tables->eos_id && vocabulary.add_eos.value_or(false)) tables->suffix.push_back(*tables->eos_id);
  return tables;
}

}  // namespace baton
