// Loads tokenizer.json and tokenizer_config.json.

#include <algorithm>
#include <utility>

#include "common/text/bpe_encoder.h"
#include "common/text/tokenizer_tables.h"
#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr char kModel[] = "tokenizer.json model";

absl::StatusOr<AddedToken> ReadAddedToken(const Json& json, std::string_view path) {
  AddedToken token;
  BATON_ASSIGN_OR_RETURN(token.content, ReadString(json, "content", path));
  BATON_ASSIGN_OR_RETURN(token.special, ReadBool(json, "special", false, path));
  BATON_ASSIGN_OR_RETURN(token.normalized, ReadBool(json, "normalized", !token.special, path));
  BATON_ASSIGN_OR_RETURN(token.lstrip, ReadBool(json, "lstrip", false, path));
  BATON_ASSIGN_OR_RETURN(token.rstrip, ReadBool(json, "rstrip", false, path));
  BATON_ASSIGN_OR_RETURN(token.single_word, ReadBool(json, "single_word", false, path));
  return token;
}

absl::StatusOr<TokenId> CheckId(int64_t id, std::string_view what) {
  if (id < 0 || id > kMaxTokenId) return InvalidArgument("%s has id %d, outside 0 to %d", what, id, kMaxTokenId);
  return static_cast<TokenId>(id);
}

absl::Status AddToken(AddedToken token, TokenizerTables* tables) {
  if (token.content.empty()) return absl::OkStatus();
  // A spelling that the vocabulary has keeps the vocabulary's id.
  if (const auto id = tables->Find(token.content)) token.id = *id;
  return tables->SetAddedToken(std::move(token));
}

absl::Status ReadAddedTokens(const Json& root, TokenizerTables* tables) {
  BATON_ASSIGN_OR_RETURN(const Json* list, ReadArray(root, "added_tokens", "tokenizer.json"));
  if (list == nullptr) return absl::OkStatus();
  for (const Json& entry : *list) {
    BATON_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(entry, "tokenizer.json added_tokens"));
    BATON_ASSIGN_OR_RETURN(const int64_t id, ReadInteger(entry, "id", "tokenizer.json added_tokens"));
    BATON_ASSIGN_OR_RETURN(token.id, CheckId(id, "added token"));
    BATON_RETURN_IF_ERROR(AddToken(std::move(token), tables));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BpeEncoder::SpelledToken>> ReadVocabulary(const Json& model, TokenizerTables* tables) {
  const Json* vocabulary = FindMember(model, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object()) return InvalidArgument("%s.vocab is no object", kModel);
  std::vector<BpeEncoder::SpelledToken> tokens;
  tokens.reserve(vocabulary->size());
  for (const auto& [spelling, value] : vocabulary->items()) {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT32_MAX)) {
      return InvalidArgument("%s.vocab[\"%s\"] is no token id", kModel, spelling);
    }
    BATON_ASSIGN_OR_RETURN(const TokenId id, CheckId(value.get<int64_t>(), "vocabulary entry"));
    BATON_RETURN_IF_ERROR(tables->SetToken(id, spelling));
    tokens.push_back({spelling, id});
  }
  return tokens;
}

using MergeList = std::vector<std::pair<std::string, std::string>>;

absl::StatusOr<MergeList> ReadMerges(const Json& model) {
  BATON_ASSIGN_OR_RETURN(const Json* list, ReadArray(model, "merges", kModel));
  if (list == nullptr) return InvalidArgument("%s.merges is missing", kModel);
  MergeList merges;
  merges.reserve(list->size());
  for (const Json& entry : *list) {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      merges.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
      continue;
    }
    const std::string text = entry.is_string() ? entry.get<std::string>() : "";
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) {
      return InvalidArgument("%s.merges[%d] is no pair of tokens", kModel, merges.size());
    }
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

absl::Status RefuseUnsupportedModel(const Json& model) {
  std::string type = "BPE";  // old files do not say
  if (FindMember(model, "type") != nullptr) {
    BATON_ASSIGN_OR_RETURN(type, ReadString(model, "type", kModel));
  }
  if (type != "BPE") return Unimplemented("tokenizer model type %s is not supported", type);
  const Json* dropout = FindMember(model, "dropout");
  if (dropout != nullptr && (!dropout->is_number() || dropout->get<double>() != 0)) {
    return Unimplemented("tokenizer model with dropout is not supported");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (FindMember(model, key) == nullptr) continue;
    BATON_ASSIGN_OR_RETURN(const std::string affix, ReadString(model, key, kModel));
    if (!affix.empty()) return Unimplemented("tokenizer model with %s \"%s\" is not supported", key, affix);
  }
  return absl::OkStatus();
}

absl::Status AddTemplateItem(const Json& item, const Json* special_tokens, bool* after_text, TokenizerTables* tables) {
  constexpr char kPath[] = "post_processor";
  if (FindMember(item, "Sequence") != nullptr) {
    if (*after_text) return Unimplemented("post_processor template that repeats the text is not supported");
    *after_text = true;
    return absl::OkStatus();
  }
  const Json* token = FindMember(item, "SpecialToken");
  if (token == nullptr) return InvalidArgument("post_processor.single has an item of no known kind");
  BATON_ASSIGN_OR_RETURN(const std::string name, ReadString(*token, "id", kPath));
  const Json* entry = special_tokens == nullptr ? nullptr : FindMember(*special_tokens, name.c_str());
  if (entry == nullptr) return InvalidArgument("post_processor.special_tokens lacks \"%s\"", name);
  BATON_ASSIGN_OR_RETURN(const Json* ids, ReadArray(*entry, "ids", kPath));
  if (ids == nullptr) return InvalidArgument("post_processor.special_tokens[\"%s\"].ids is missing", name);
  for (const Json& id : *ids) {
    const int64_t value = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (value < 0 || value > kMaxTokenId || !tables->IsUsed(static_cast<TokenId>(value))) {
      return InvalidArgument("post_processor's token \"%s\" has id %d, which is not in the vocabulary", name, value);
    }
    (*after_text ? tables->suffix : tables->prefix).push_back(static_cast<TokenId>(value));
  }
  return absl::OkStatus();
}

absl::Status ReadPostProcessor(const Json* json, int depth, TokenizerTables* tables) {
  constexpr char kPath[] = "post_processor";
  constexpr int kMaxDepth = 16;
  if (json == nullptr) return absl::OkStatus();
  if (depth > kMaxDepth) return InvalidArgument("post_processor: sequences nest deeper than %d", kMaxDepth);
  BATON_ASSIGN_OR_RETURN(const std::string type, ReadString(*json, "type", kPath));
  if (type == "ByteLevel") return absl::OkStatus();  // only moves offsets, which are not kept
  if (type == "Sequence") {
    BATON_ASSIGN_OR_RETURN(const Json* parts, ReadArray(*json, "processors", kPath));
    if (parts == nullptr) return InvalidArgument("post_processor.processors is missing");
    for (const Json& part : *parts) BATON_RETURN_IF_ERROR(ReadPostProcessor(&part, depth + 1, tables));
    return absl::OkStatus();
  }
  if (type != "TemplateProcessing") return Unimplemented("post_processor type %s is not supported", type);
  if (!tables->prefix.empty() || !tables->suffix.empty()) {
    return Unimplemented("post_processor with two templates is not supported");
  }
  BATON_ASSIGN_OR_RETURN(const Json* items, ReadArray(*json, "single", kPath));
  if (items == nullptr) return InvalidArgument("post_processor.single is missing");
  bool after_text = false;
  for (const Json& item : *items) {
    BATON_RETURN_IF_ERROR(AddTemplateItem(item, FindMember(*json, "special_tokens"), &after_text, tables));
  }
  if (!after_text) return InvalidArgument("post_processor.single does not contain the text");
  return absl::OkStatus();
}

// "bos_token" and "eos_token" are strings or objects with a "content".
absl::StatusOr<std::optional<TokenId>> ReadNamedToken(const Json& config, const char* key, TokenizerTables* tables) {
  const Json* value = FindMember(config, key);
  if (value == nullptr) return std::nullopt;
  std::string content;
  if (value->is_string()) {
    content = value->get<std::string>();
  } else {
    BATON_ASSIGN_OR_RETURN(content, ReadString(*value, "content", std::string("tokenizer_config.json ") + key));
  }
  const auto id = tables->Find(content);
  if (!id) return std::nullopt;
  const auto known = tables->added_by_id.find(*id);
  AddedToken token = known == tables->added_by_id.end() ? AddedToken{.id = *id, .content = content} : *known->second;
  token.special = true;
  BATON_RETURN_IF_ERROR(tables->SetAddedToken(std::move(token)));
  return id;
}

absl::Status ReadConfigAddedTokens(const Json& config, TokenizerTables* tables) {
  const Json* entries = FindMember(config, "added_tokens_decoder");
  if (entries == nullptr) return absl::OkStatus();
  if (!entries->is_object()) return InvalidArgument("tokenizer_config.json added_tokens_decoder is no object");
  for (const auto& [key, value] : entries->items()) {
    BATON_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(value, "tokenizer_config.json added_tokens_decoder"));
    if (key.empty() || key.size() > 9 ||
        !std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      return InvalidArgument("tokenizer_config.json added_tokens_decoder has the key \"%s\", no token id", key);
    }
    BATON_ASSIGN_OR_RETURN(token.id, CheckId(std::stol(key), "added token"));
    BATON_RETURN_IF_ERROR(AddToken(std::move(token), tables));
  }
  return absl::OkStatus();
}

// An explicit add_bos_token or add_eos_token has the last word over the post-processor.
absl::Status ApplyAddFlag(const Json& config, const char* key, std::optional<TokenId> id, bool at_front,
                          std::vector<TokenId>* ids) {
  if (FindMember(config, key) == nullptr) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const bool add, ReadBool(config, key, false, "tokenizer_config.json"));
  if (!id) return absl::OkStatus();
  const auto at = std::find(ids->begin(), ids->end(), *id);
  if (!add && at != ids->end()) ids->erase(at);
  if (add && at == ids->end()) ids->insert(at_front ? ids->begin() : ids->end(), *id);
  return absl::OkStatus();
}

absl::Status ReadConfig(const std::string& text, TokenizerTables* tables) {
  if (text.empty()) {
    if (!tables->prefix.empty()) tables->bos_id = tables->prefix.front();
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const Json config, ParseJson(text, "tokenizer_config.json"));
  BATON_RETURN_IF_ERROR(ReadConfigAddedTokens(config, tables));
  BATON_ASSIGN_OR_RETURN(tables->bos_id, ReadNamedToken(config, "bos_token", tables));
  BATON_ASSIGN_OR_RETURN(tables->eos_id, ReadNamedToken(config, "eos_token", tables));
  BATON_RETURN_IF_ERROR(ApplyAddFlag(config, "add_bos_token", tables->bos_id, true, &tables->prefix));
  return ApplyAddFlag(config, "add_eos_token", tables->eos_id, false, &tables->suffix);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenizerTables>> LoadTokenizerJson(const std::string& tokenizer_json,
                                                                   const std::string& tokenizer_config_json) {
  auto tables = std::make_unique<TokenizerTables>();
  BATON_ASSIGN_OR_RETURN(const Json root, ParseJson(tokenizer_json, "tokenizer.json"));
  const Json* model = FindMember(root, "model");
  if (model == nullptr) return InvalidArgument("tokenizer.json.model is missing");
  BATON_RETURN_IF_ERROR(RefuseUnsupportedModel(*model));
  BATON_ASSIGN_OR_RETURN(const auto vocabulary, ReadVocabulary(*model, tables.get()));
  BATON_ASSIGN_OR_RETURN(const auto merges, ReadMerges(*model));
  BATON_RETURN_IF_ERROR(ReadAddedTokens(root, tables.get()));
  BATON_ASSIGN_OR_RETURN(tables->normalizer, Normalizer::FromJson(FindMember(root, "normalizer")));
  BATON_ASSIGN_OR_RETURN(tables->pre_tokenizer, PreTokenizer::FromJson(FindMember(root, "pre_tokenizer")));
  BATON_RETURN_IF_ERROR(ReadPostProcessor(FindMember(root, "post_processor"), 0, tables.get()));
  BATON_RETURN_IF_ERROR(ReadConfig(tokenizer_config_json, tables.get()));

  BpeOptions options;
  options.byte_level = tables->pre_tokenizer.byte_level();
  BATON_ASSIGN_OR_RETURN(options.ignore_merges, ReadBool(*model, "ignore_merges", false, kModel));
  BATON_ASSIGN_OR_RETURN(options.byte_fallback, ReadBool(*model, "byte_fallback", false, kModel));
  BATON_ASSIGN_OR_RETURN(options.fuse_unknown, ReadBool(*model, "fuse_unk", false, kModel));
  if (FindMember(*model, "unk_token") != nullptr) {
    BATON_ASSIGN_OR_RETURN(const std::string unknown, ReadString(*model, "unk_token", kModel));
    options.unknown_id = tables->Find(unknown).value_or(kNoToken);
  }
  BATON_ASSIGN_OR_RETURN(auto encoder, BpeEncoder::Create(vocabulary, merges, tables->SpecialIds(), options));
  tables->encoder = std::make_unique<BpeEncoder>(std::move(encoder));
  const TokenDecoder otherwise{.byte_level = options.byte_level, .byte_fallback = options.byte_fallback};
  BATON_ASSIGN_OR_RETURN(const TokenDecoder decoder, TokenDecoder::FromJson(FindMember(root, "decoder"), otherwise));
  BATON_RETURN_IF_ERROR(tables->Finish(decoder));
  return tables;
}

}  // namespace baton
