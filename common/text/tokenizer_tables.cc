#include "common/text/tokenizer_tables.h"

#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr size_t kMaxAddedTokenBytes = 4096;  // bounds the look-ahead at every position of a text

}  // namespace

absl::Status TokenizerTables::SetToken(TokenId id, std::string_view spelling) {
  if (id < 0 || id > kMaxTokenId) return InvalidArgument("token id %d is outside 0 to %d", id, kMaxTokenId);
  if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(id + 1);
  Token& token = tokens[id];
  if (token.used && token.spelling != spelling) {
    return InvalidArgument("token id %d is given to both \"%s\" and \"%s\"", id, token.spelling, spelling);
  }
  token.spelling = spelling;
  token.used = true;
  ids.emplace(spelling, id);
  return absl::OkStatus();
}

absl::Status TokenizerTables::SetAddedToken(AddedToken token) {
  BATON_RETURN_IF_ERROR(SetToken(token.id, token.content));
  AddedToken*& entry = added_by_id[token.id];
  if (entry == nullptr) {
    entry = &added_tokens.emplace_back(std::move(token));
  } else {
    *entry = std::move(token);
  }
  return absl::OkStatus();
}

std::optional<TokenId> TokenizerTables::Find(std::string_view spelling) const {
  const auto it = ids.find(spelling);
  if (it == ids.end()) return std::nullopt;
  return it->second;
}

std::vector<bool> TokenizerTables::SpecialIds() const {
  std::vector<bool> special(tokens.size());
  for (const AddedToken& token : added_tokens) {
    if (token.special) special[token.id] = true;
  }
  return special;
}

absl::Status TokenizerTables::Finish(const TokenDecoder& decoder) {
  drops_leading_space = decoder.drops_leading_space;
  std::vector<bool> literal(tokens.size());
  for (const AddedToken& token : added_tokens) {
    if (token.content.size() > kMaxAddedTokenBytes) {
      return InvalidArgument("added token %d has %d bytes, at most %d are taken", token.id, token.content.size(),
                             kMaxAddedTokenBytes);
    }
    if (FirstInvalidUtf8(token.content)) return InvalidArgument("added token %d is not valid UTF-8", token.id);
    literal[token.id] = true;
    if (token.special) tokens[token.id].special = true;
  }
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].used) tokens[id].bytes = decoder.BytesOf(tokens[id].spelling, literal[id]);
  }
  // Control tokens first: where two are spelled alike, they win.
  for (const bool special : {true, false}) {
    for (const AddedToken& token : added_tokens) {
      if (token.special != special) continue;
      if (token.normalized) {
        BATON_ASSIGN_OR_RETURN(const std::string content, normalizer.Apply(token.content));
        normalized_finder.Add(content, &token);
      } else {
        raw_finder.Add(token.content, &token);
      }
      if (token.special || !token.normalized) segment_finder.Add(token.content, &token);
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
