#include "common/text/normalizer.h"

#include <utility>

#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr int kMaxDepth = 16;               // Sequences inside Sequences
constexpr size_t kMaxInsertedBytes = 1024;  // a file must not blow every text up

absl::Status CheckInserted(const std::string& text) {
  if (text.size() <= kMaxInsertedBytes) return absl::OkStatus();
  return InvalidArgument("normalizer inserts %d bytes, at most %d are taken", text.size(), kMaxInsertedBytes);
}

absl::Status AppendSteps(const Json& json, int depth, std::vector<Normalizer::Step>* steps) {
  if (depth > kMaxDepth) return InvalidArgument("normalizer: sequences nest deeper than %d", kMaxDepth);
  BATON_ASSIGN_OR_RETURN(const std::string type, ReadString(json, "type", "normalizer"));
  if (type == "Sequence") {
    BATON_ASSIGN_OR_RETURN(const Json* parts, ReadArray(json, "normalizers", "normalizer"));
    if (parts == nullptr) return InvalidArgument("normalizer.normalizers is missing");
    for (const Json& part : *parts) BATON_RETURN_IF_ERROR(AppendSteps(part, depth + 1, steps));
  } else if (type == "NFC") {
    steps->push_back(NormalizationForm::kNfc);
  } else if (type == "NFD") {
    steps->push_back(NormalizationForm::kNfd);
  } else if (type == "NFKC") {
    steps->push_back(NormalizationForm::kNfkc);
  } else if (type == "NFKD") {
    steps->push_back(NormalizationForm::kNfkd);
  } else if (type == "Prepend") {
    BATON_ASSIGN_OR_RETURN(std::string text, ReadString(json, "prepend", "normalizer"));
    BATON_RETURN_IF_ERROR(CheckInserted(text));
    steps->push_back(Normalizer::Prepend{std::move(text)});
  } else if (type == "Replace") {
    Normalizer::Replace replace;
    BATON_ASSIGN_OR_RETURN(replace.content, ReadString(json, "content", "normalizer"));
    BATON_RETURN_IF_ERROR(CheckInserted(replace.content));
    BATON_ASSIGN_OR_RETURN(replace.pattern, ReadPattern(json, "normalizer"));
    steps->push_back(std::move(replace));
  } else if (type == "Strip") {
    Normalizer::Strip strip;
    BATON_ASSIGN_OR_RETURN(strip.left, ReadBool(json, "strip_left", true, "normalizer"));
    BATON_ASSIGN_OR_RETURN(strip.right, ReadBool(json, "strip_right", true, "normalizer"));
    steps->push_back(strip);
  } else {
    return Unimplemented("normalizer type %s is not supported", type);
  }
  return absl::OkStatus();
}

struct ApplyStep {
  std::string text;

  absl::StatusOr<std::string> operator()(NormalizationForm form) { return NormalizeUnicode(text, form); }

  absl::StatusOr<std::string> operator()(const Normalizer::Prepend& prepend) {
    return text.empty() ? std::move(text) : prepend.text + text;
  }

  absl::StatusOr<std::string> operator()(const Normalizer::Replace& replace) {
    std::string out;
    BATON_ASSIGN_OR_RETURN(auto spans, FindPattern(replace.pattern, text, nullptr));
    size_t end = 0;
    for (const auto& [from, to] : spans) {
      out.append(text, end, from - end).append(replace.content);
      end = to;
    }
    return out.append(text, end);
  }

  absl::StatusOr<std::string> operator()(const Normalizer::Strip& strip) {
    size_t begin = 0, end = text.size();
    while (strip.right && end > 0) {
      const size_t previous = PreviousCharacter(text, end);
      if (!IsWhiteSpace(CharacterAt(text, previous).value)) break;
      end = previous;
    }
    while (strip.left && begin < end) {
      const Utf8Character c = CharacterAt(text, begin);
      if (!IsWhiteSpace(c.value)) break;
      begin += c.length;
    }
    return text.substr(begin, end - begin);
  }
};

}  // namespace

absl::StatusOr<Normalizer> Normalizer::FromJson(const Json* json) {
  std::vector<Step> steps;
  if (json != nullptr) BATON_RETURN_IF_ERROR(AppendSteps(*json, 0, &steps));
  return Normalizer(std::move(steps));
}

absl::StatusOr<std::string> Normalizer::Apply(std::string_view text) const {
  ApplyStep apply{std::string(text)};
  for (const Step& step : steps_) {
    BATON_ASSIGN_OR_RETURN(apply.text, std::visit(apply, step));
  }
  return std::move(apply.text);
}

}  // namespace baton
