#include "common/text/gguf_pre_tokenizer.h"

#include <utility>
#include <vector>

namespace baton {
namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";

struct Entry {
  std::string_view name;
  std::vector<std::string_view> patterns;  // each cuts the pieces of the one before
  bool ignore_merges = false, add_bos = false, nfc = false;
};

const std::vector<Entry> kCatalogue = {
    {"default", {kGpt2Pattern}},
    {"gpt-2", {kGpt2Pattern}},
    {"phi-2", {kGpt2Pattern}},
    {"olmo", {kGpt2Pattern}},
    {"mpt", {kGpt2Pattern}},
    {"smollm", {kDigit, kGpt2Pattern}},
    {"starcoder", {kDigit, kGpt2Pattern}},
    {"refact", {kDigit, kGpt2Pattern}},
    {"command-r", {kDigit, kGpt2Pattern}},
    {"qwen2", {kQwen2}, false, false, true},
    {"llama-bpe", {kLlama3}, true, true},
    {"llama3", {kLlama3}, true, true},
    {"llama-v3", {kLlama3}, true, true},
    {"dbrx", {kLlama3}},
    {"smaug-bpe", {kLlama3}},
    {"tekken", {kTekken}, true, true},
};

}  // namespace

absl::StatusOr<GgufPreTokenizer> MakeGgufPreTokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Entry& entry : kCatalogue) {
    if (entry.name != name) continue;
    std::vector<PreTokenizer::Step> steps;
    for (const std::string_view pattern : entry.patterns) {
      BATON_ASSIGN_OR_RETURN(auto regex, Regex::Compile(pattern));
      steps.push_back(PreTokenizer::Split{{"", std::move(regex)}, PreTokenizer::Behavior::kIsolated, false});
    }
    return GgufPreTokenizer{PreTokenizer(std::move(steps), /*byte_level=*/true), entry.ignore_merges, entry.add_bos,
                            entry.nfc};
  }
  return Unimplemented("GGUF pre-tokenizer %s is not supported", name);
}

}  // namespace baton
