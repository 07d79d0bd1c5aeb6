#include "common/text/tokenizer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/text/detokenizer.h"
#include "common/text/tokenizer_tables.h"
#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // symbols count bytes in 32 bits

// Encodes one input: finds added tokens, normalizes, cuts into pieces, encodes those.
class Encoding {
 public:
  Encoding(const TokenizerTables& tables, const EncodeOptions& options) : tables_(tables) {
    scratch_.cancelled = options.cancelled;
  }

  // `raw`: finds tokens in raw text. `normalized_special`: control tokens are also looked for in normalized text.
  absl::Status Run(std::string_view text, const AddedTokenFinder& raw, const AddedTokenFinder::Filter& allowed,
                   bool normalized_special) {
    for (const TextOrToken& part : raw.Find(text, allowed)) {
      if (part.token != nullptr) {
        ids_.push_back(part.token->id);
        continue;
      }
      const bool at_start = part.text.data() == text.data();
      BATON_RETURN_IF_ERROR(EncodeRawText(part.text, at_start, normalized_special));
    }
    return absl::OkStatus();
  }

  std::vector<TokenId> TakeIds(bool add_special_tokens) {
    if (!add_special_tokens) return std::move(ids_);
    auto first = tables_.prefix.begin();
    const bool has_bos = !ids_.empty() && tables_.bos_id == ids_.front();
    if (has_bos && first != tables_.prefix.end() && *first == ids_.front()) ++first;
    ids_.insert(ids_.begin(), first, tables_.prefix.end());
    ids_.insert(ids_.end(), tables_.suffix.begin(), tables_.suffix.end());
    return std::move(ids_);
  }

 private:
  absl::Status EncodeRawText(std::string_view raw, bool at_start, bool special) {
    if (scratch_.cancelled && scratch_.cancelled()) return Cancelled("tokenization cancelled");
    std::string normalized;
    std::string_view text = raw;
    if (!tables_.normalizer.empty()) {
      BATON_ASSIGN_OR_RETURN(normalized, tables_.normalizer.Apply(raw));
      text = normalized;
    }
    const auto allowed = [special](const AddedToken& token, size_t, size_t) { return special || !token.special; };
    for (const TextOrToken& part : tables_.normalized_finder.Find(text, allowed)) {
      if (part.token != nullptr) {
        ids_.push_back(part.token->id);
      } else {
        BATON_RETURN_IF_ERROR(EncodeNormalizedText(part.text, at_start && part.text.data() == text.data()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status EncodeNormalizedText(std::string_view text, bool at_start) {
    std::deque<std::string> storage;
    BATON_ASSIGN_OR_RETURN(const auto pieces,
                           tables_.pre_tokenizer.Apply(text, at_start, scratch_.cancelled, &storage));
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i % 4096 == 4095 && scratch_.cancelled && scratch_.cancelled()) return Cancelled("tokenization cancelled");
      BATON_RETURN_IF_ERROR(tables_.encoder->Encode(pieces[i], &scratch_, &ids_));
    }
    return absl::OkStatus();
  }

  const TokenizerTables& tables_;
  EncodeScratch scratch_;
  std::vector<TokenId> ids_;
};

absl::Status CheckText(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument("text has %d bytes, at most %d are taken", text.size(), kMaxTextBytes);
  }
  if (const auto bad = FirstInvalidUtf8(text)) return InvalidArgument("text is not valid UTF-8 at byte %d", *bad);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TokenizerTables>> Load(const TextAssets& assets) {
  if (assets.gguf && !assets.tokenizer_json.empty()) {
    return InvalidArgument("both tokenizer.json and a GGUF vocabulary are given");
  }
  if (assets.gguf) return LoadGgufVocabulary(*assets.gguf);
  if (assets.tokenizer_json.empty()) return InvalidArgument("neither tokenizer.json nor a GGUF vocabulary is given");
  try {
    return LoadTokenizerJson(assets.tokenizer_json, assets.tokenizer_config_json);
  } catch (const std::exception& error) {  // the JSON library's
    return InvalidArgument("tokenizer.json: %s", error.what());
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Create(const TextAssets& assets) {
  BATON_ASSIGN_OR_RETURN(auto tables, Load(assets));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(tables)));
}

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerTables> tables) : tables_(std::move(tables)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  BATON_RETURN_IF_ERROR(CheckText(text));
  Encoding encoding(*tables_, options);
  const bool special = options.parse_special;
  const auto allowed = [special](const AddedToken& token, size_t, size_t) { return special || !token.special; };
  BATON_RETURN_IF_ERROR(encoding.Run(text, tables_->raw_finder, allowed, special));
  return encoding.TakeIds(options.add_special_tokens);
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::EncodeSegments(std::span<const TextSegment> segments,
                                                               const EncodeOptions& options) const {
  std::string text;
  std::vector<std::pair<size_t, size_t>> trusted;  // byte ranges in order, none adjacent
  for (const TextSegment& segment : segments) {
    const size_t begin = text.size();
    text.append(segment.text);
    if (!segment.trusted || segment.text.empty()) continue;
    if (!trusted.empty() && trusted.back().second == begin) {
      trusted.back().second = text.size();
    } else {
      trusted.emplace_back(begin, text.size());
    }
  }
  BATON_RETURN_IF_ERROR(CheckText(text));
  Encoding encoding(*tables_, options);
  if (trusted.size() == 1 && trusted[0].second - trusted[0].first == text.size()) {
    const auto all = [](const AddedToken&, size_t, size_t) { return true; };
    BATON_RETURN_IF_ERROR(encoding.Run(text, tables_->raw_finder, all, true));
    return encoding.TakeIds(options.add_special_tokens);
  }
  const auto allowed = [&trusted](const AddedToken& token, size_t begin, size_t end) {
    if (!token.special) return true;
    const auto after = std::upper_bound(trusted.begin(), trusted.end(), std::make_pair(begin, SIZE_MAX));
    return after != trusted.begin() && std::prev(after)->second >= end;
  };
  BATON_RETURN_IF_ERROR(encoding.Run(text, tables_->segment_finder, allowed, false));
  return encoding.TakeIds(options.add_special_tokens);
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  std::string text;
  // A Detokenizer shares ownership of its tokenizer; this call keeps nothing.
  Detokenizer detokenizer(std::shared_ptr<const Tokenizer>(std::shared_ptr<const Tokenizer>(), this), options);
  for (const TokenId id : ids) text += detokenizer.Add(id);
  return text + detokenizer.Finish();
}

int Tokenizer::vocab_size() const { return static_cast<int>(tables_->tokens.size()); }
std::optional<TokenId> Tokenizer::bos_id() const { return tables_->bos_id; }
std::optional<TokenId> Tokenizer::eos_id() const { return tables_->eos_id; }
std::optional<TokenId> Tokenizer::TokenToId(std::string_view spelling) const { return tables_->Find(spelling); }

std::string_view Tokenizer::TokenText(TokenId id) const {
  return tables_->IsUsed(id) ? std::string_view(tables_->tokens[id].spelling) : std::string_view();
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  return tables_->IsUsed(id) ? std::string_view(tables_->tokens[id].bytes) : std::string_view();
}

bool Tokenizer::IsSpecial(TokenId id) const { return tables_->IsUsed(id) && tables_->tokens[id].special; }
bool Tokenizer::DropsLeadingSpace() const { return tables_->drops_leading_space; }

}  // namespace baton
