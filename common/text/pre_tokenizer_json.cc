#include "common/text/pre_tokenizer.h"

namespace baton {
namespace {

constexpr int kMaxDepth = 16;  // Sequences inside Sequences
constexpr char kPath[] = "pre_tokenizer";

absl::StatusOr<PreTokenizer::Behavior> ReadBehavior(const Json& json) {
  BATON_ASSIGN_OR_RETURN(const std::string name, ReadString(json, "behavior", kPath));
  if (name == "Removed") return PreTokenizer::Behavior::kRemoved;
  if (name == "Isolated") return PreTokenizer::Behavior::kIsolated;
  if (name == "MergedWithPrevious") return PreTokenizer::Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return PreTokenizer::Behavior::kMergedWithNext;
  if (name == "Contiguous") return PreTokenizer::Behavior::kContiguous;
  return Unimplemented("pre_tokenizer behavior %s is not supported", name);
}

absl::StatusOr<PreTokenizer::Metaspace> ReadMetaspace(const Json& json) {
  PreTokenizer::Metaspace metaspace;
  BATON_ASSIGN_OR_RETURN(metaspace.replacement, ReadString(json, "replacement", kPath));
  if (metaspace.replacement.empty() || metaspace.replacement.size() > 4) {
    return InvalidArgument("pre_tokenizer.replacement has %d bytes, not one character", metaspace.replacement.size());
  }
  BATON_ASSIGN_OR_RETURN(metaspace.split, ReadBool(json, "split", true, kPath));
  std::string scheme = "always";
  if (FindMember(json, "prepend_scheme") != nullptr) {
    BATON_ASSIGN_OR_RETURN(scheme, ReadString(json, "prepend_scheme", kPath));
  } else {
    // Files from before prepend_scheme.
    BATON_ASSIGN_OR_RETURN(const bool add, ReadBool(json, "add_prefix_space", true, kPath));
    if (!add) scheme = "never";
  }
  if (scheme == "always") {
    metaspace.prepend = PreTokenizer::PrependScheme::kAlways;
  } else if (scheme == "first") {
    metaspace.prepend = PreTokenizer::PrependScheme::kFirst;
  } else if (scheme == "never") {
    metaspace.prepend = PreTokenizer::PrependScheme::kNever;
  } else {
    return Unimplemented("pre_tokenizer prepend_scheme %s is not supported", scheme);
  }
  return metaspace;
}

struct Reader {
  std::vector<PreTokenizer::Step> steps;
  bool byte_level = false;

  absl::Status AddSplit(std::string_view regex, PreTokenizer::Behavior behavior) {
    BATON_ASSIGN_OR_RETURN(auto compiled, Regex::Compile(regex));
    steps.push_back(PreTokenizer::Split{{"", std::move(compiled)}, behavior, false});
    return absl::OkStatus();
  }

  absl::Status Add(const Json& json, int depth) {
    if (depth > kMaxDepth) return InvalidArgument("pre_tokenizer: sequences nest deeper than %d", kMaxDepth);
    BATON_ASSIGN_OR_RETURN(const std::string type, ReadString(json, "type", kPath));
    // ByteLevel spells bytes as other characters; what comes after it would see those.
    if (byte_level) return Unimplemented("pre_tokenizer %s after ByteLevel is not supported", type);
    if (type == "Sequence") {
      BATON_ASSIGN_OR_RETURN(const Json* parts, ReadArray(json, "pretokenizers", kPath));
      if (parts == nullptr) return InvalidArgument("pre_tokenizer.pretokenizers is missing");
      for (const Json& part : *parts) BATON_RETURN_IF_ERROR(Add(part, depth + 1));
    } else if (type == "Split") {
      PreTokenizer::Split split;
      BATON_ASSIGN_OR_RETURN(split.pattern, ReadPattern(json, kPath));
      BATON_ASSIGN_OR_RETURN(split.behavior, ReadBehavior(json));
      BATON_ASSIGN_OR_RETURN(split.invert, ReadBool(json, "invert", false, kPath));
      steps.push_back(std::move(split));
    } else if (type == "ByteLevel") {
      BATON_ASSIGN_OR_RETURN(const bool prefix, ReadBool(json, "add_prefix_space", true, kPath));
      BATON_ASSIGN_OR_RETURN(const bool use_regex, ReadBool(json, "use_regex", true, kPath));
      if (prefix) steps.push_back(PreTokenizer::PrefixSpace{});
      if (use_regex) BATON_RETURN_IF_ERROR(AddSplit(kGpt2Pattern, PreTokenizer::Behavior::kIsolated));
      byte_level = true;
    } else if (type == "Digits") {
      BATON_ASSIGN_OR_RETURN(const bool individual, ReadBool(json, "individual_digits", false, kPath));
      BATON_RETURN_IF_ERROR(
          AddSplit(R"(\p{N})", individual ? PreTokenizer::Behavior::kIsolated : PreTokenizer::Behavior::kContiguous));
    } else if (type == "Punctuation") {
      PreTokenizer::Behavior behavior = PreTokenizer::Behavior::kIsolated;
      if (FindMember(json, "behavior") != nullptr) {
        BATON_ASSIGN_OR_RETURN(behavior, ReadBehavior(json));
      }
      BATON_RETURN_IF_ERROR(AddSplit(R"([\p{P}$+<=>^`|~])", behavior));
    } else if (type == "Metaspace") {
      BATON_ASSIGN_OR_RETURN(auto metaspace, ReadMetaspace(json));
      steps.push_back(std::move(metaspace));
    } else {
      return Unimplemented("pre_tokenizer type %s is not supported", type);
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::FromJson(const Json* json) {
  Reader reader;
  if (json != nullptr) BATON_RETURN_IF_ERROR(reader.Add(*json, 0));
  return PreTokenizer(std::move(reader.steps), reader.byte_level);
}

}  // namespace baton
