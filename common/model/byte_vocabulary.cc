#include "common/model/byte_vocabulary.h"

#include "nlohmann/json.hpp"

namespace baton::model {
namespace {

// GPT-2's printable stand-ins for bytes: printable Latin-1 stays, the rest goes to U+0100 upwards.
std::string ByteSymbol(int byte) {
  const auto printable = [](int c) {
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int c = 0; c < byte; ++c) code += printable(c) ? 0 : 1;
  }
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

// A blank and three syllables; another one for every number below 1,000,000.
std::string Word(uint32_t number) {
  constexpr std::string_view kConsonants = "bcdfghjklmnpqrstvwxz", kVowels = "aeiou";
  std::string word = ByteSymbol(' ');
  for (int syllable = 0; syllable < 3; ++syllable) {
    word += kConsonants[number % 20];
    word += kVowels[number / 20 % 5];
    number /= 100;
  }
  return word;
}

}  // namespace

const std::string_view kByteChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

std::vector<std::string> ByteVocabulary(uint32_t size) {
  std::vector<std::string> out;
  out.reserve(size);
  for (int byte = 0; byte < 256; ++byte) out.push_back(ByteSymbol(byte));
  out.insert(out.end(), {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  for (uint32_t word = 0; out.size() < size; ++word) out.push_back(Word(word));
  return out;
}

std::string ByteTokenizerJson(uint32_t size) {
  const std::vector<std::string> tokens = ByteVocabulary(size);
  nlohmann::json vocabulary = nlohmann::json::object(), added = nlohmann::json::array();
  for (TokenId id = 0; id < static_cast<TokenId>(tokens.size()); ++id) {
    if (id < kByteVocabularyEndOfText || id > kByteVocabularyEnd) {
      vocabulary[tokens[id]] = id;
      continue;
    }
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  nlohmann::json out = {{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
                        {"added_tokens", added},     {"normalizer", nullptr}, {"pre_tokenizer", byte_level},
                        {"post_processor", nullptr}, {"decoder", byte_level}};
  out["model"] = {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", nullptr},
                  {"continuing_subword_prefix", ""},
                  {"end_of_word_suffix", ""},
                  {"fuse_unk", false},
                  {"byte_fallback", false},
                  {"vocab", vocabulary},
                  {"merges", nlohmann::json::array()}};
  return out.dump();
}

std::string ByteTokenizerConfigJson() {
  return nlohmann::json{{"tokenizer_class", "Qwen2Tokenizer"},
                        {"add_bos_token", false},
                        {"bos_token", nullptr},
                        {"eos_token", "<|im_end|>"},
                        {"pad_token", "<|endoftext|>"},
                        {"chat_template", std::string(kByteChatTemplate)}}
      .dump(2);
}

}  // namespace baton::model
