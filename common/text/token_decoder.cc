#include "common/text/token_decoder.h"

#include "common/text/byte_alphabet.h"

namespace baton {
namespace {

constexpr int kMaxDepth = 16;  // Sequences inside Sequences
constexpr char kPath[] = "decoder";

absl::Status AddStep(const Json& json, int depth, bool* fused, TokenDecoder* decoder) {
  if (depth > kMaxDepth) return InvalidArgument("decoder: sequences nest deeper than %d", kMaxDepth);
  BATON_ASSIGN_OR_RETURN(const std::string type, ReadString(json, "type", kPath));
  if (type == "Sequence") {
    BATON_ASSIGN_OR_RETURN(const Json* parts, ReadArray(json, "decoders", kPath));
    if (parts == nullptr) return InvalidArgument("decoder.decoders is missing");
    for (const Json& part : *parts) BATON_RETURN_IF_ERROR(AddStep(part, depth + 1, fused, decoder));
  } else if (type == "ByteLevel") {
    decoder->byte_level = true;
  } else if (type == "ByteFallback") {
    decoder->byte_fallback = true;
  } else if (type == "Fuse") {
    *fused = true;
  } else if (type == "Replace") {
    BATON_ASSIGN_OR_RETURN(std::string content, ReadString(json, "content", kPath));
    const Json* pattern = FindMember(json, "pattern");
    if (pattern == nullptr) return InvalidArgument("decoder.pattern is missing");
    if (FindMember(*pattern, "Regex") != nullptr) return Unimplemented("decoder Replace by Regex is not supported");
    BATON_ASSIGN_OR_RETURN(std::string literal, ReadString(*pattern, "String", kPath));
    if (literal.empty()) return InvalidArgument("decoder.pattern is empty");
    if (*fused) return Unimplemented("decoder Replace after Fuse is not supported");
    decoder->replacements.emplace_back(std::move(literal), std::move(content));
  } else if (type == "Strip") {
    BATON_ASSIGN_OR_RETURN(const std::string content, ReadString(json, "content", kPath));
    BATON_ASSIGN_OR_RETURN(const int64_t start, ReadInteger(json, "start", kPath));
    BATON_ASSIGN_OR_RETURN(const int64_t stop, ReadInteger(json, "stop", kPath));
    if (content != " " || start < 0 || start > 1 || stop != 0 || !*fused) {
      return Unimplemented("decoder Strip is supported for one leading space after Fuse only (start %d, stop %d)",
                           start, stop);
    }
    decoder->drops_leading_space = start == 1;
  } else if (type == "Metaspace") {
    BATON_ASSIGN_OR_RETURN(std::string replacement, ReadString(json, "replacement", kPath));
    if (replacement.empty()) return InvalidArgument("decoder.replacement is empty");
    decoder->replacements.emplace_back(std::move(replacement), " ");
    std::string scheme = "always";
    if (FindMember(json, "prepend_scheme") != nullptr) {
      BATON_ASSIGN_OR_RETURN(scheme, ReadString(json, "prepend_scheme", kPath));
    } else {
      BATON_ASSIGN_OR_RETURN(const bool add, ReadBool(json, "add_prefix_space", true, kPath));
      if (!add) scheme = "never";
    }
    decoder->drops_leading_space = scheme != "never";
  } else {
    return Unimplemented("decoder type %s is not supported", type);
  }
  return absl::OkStatus();
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t end = 0;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, end)) {
    out.append(text.substr(end, at - end)).append(to);
    end = at + from.size();
  }
  return out.append(text.substr(end));
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

absl::StatusOr<TokenDecoder> TokenDecoder::FromJson(const Json* json, const TokenDecoder& otherwise) {
  if (json == nullptr) return otherwise;
  TokenDecoder decoder;
  bool fused = false;
  BATON_RETURN_IF_ERROR(AddStep(*json, 0, &fused, &decoder));
  return decoder;
}

std::string TokenDecoder::BytesOf(std::string_view spelling, bool literal) const {
  if (byte_level && !literal) {
    if (auto bytes = BytesOfSpelling(spelling)) return *std::move(bytes);
  }
  if (byte_fallback) {
    const int byte = ByteOfFallbackToken(spelling);
    if (byte >= 0) return std::string(1, static_cast<char>(byte));
  }
  std::string text(spelling);
  for (const auto& [from, to] : replacements) text = ReplaceAll(text, from, to);
  return text;
}

int ByteOfFallbackToken(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
  const int high = HexDigit(spelling[3]), low = HexDigit(spelling[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace baton
