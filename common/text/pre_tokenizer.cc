#include "common/text/pre_tokenizer.h"

namespace baton {

namespace {

struct Piece {
  std::string_view text;
  bool at_start;
};

struct MatchSpan {
  TextSpan span;
  bool is_match;
};

using Behavior = PreTokenizer::Behavior;

// All of `text`: the matches and what lies between them.
std::vector<MatchSpan> WithGaps(const std::vector<TextSpan>& matches, size_t size, bool invert) {
  std::vector<MatchSpan> spans;
  spans.reserve(matches.size() + 1);
  size_t end = 0;
  for (const TextSpan& match : matches) {
    if (match.first > end) spans.push_back({{end, match.first}, invert});
    spans.push_back({match, !invert});
    end = match.second;
  }
  if (end < size) spans.push_back({{end, size}, invert});
  return spans;
}

std::vector<TextSpan> Cut(const std::vector<MatchSpan>& spans, Behavior behavior) {
  std::vector<TextSpan> pieces;
  pieces.reserve(spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto& [span, is_match] = spans[i];
    const bool after_match = i > 0 && spans[i - 1].is_match;
    switch (behavior) {
      case Behavior::kRemoved:
        if (!is_match) pieces.push_back(span);
        continue;
      case Behavior::kIsolated:
        break;
      case Behavior::kContiguous:
        if (i > 0 && is_match == after_match) {
          pieces.back().second = span.second;
          continue;
        }
        break;
      case Behavior::kMergedWithPrevious:
        if (is_match && i > 0 && !after_match) {
          pieces.back().second = span.second;
          continue;
        }
        break;
      case Behavior::kMergedWithNext:
        if (i > 0 && after_match && !is_match) {
          pieces.back().second = span.second;
          continue;
        }
        break;
    }
    pieces.push_back(span);
  }
  return pieces;
}

struct ApplyStep {
  const Piece& piece;
  const std::function<bool()>& cancelled;
  std::deque<std::string>* storage;
  std::vector<Piece>* out;

  absl::Status operator()(const PreTokenizer::Split& split) {
    BATON_ASSIGN_OR_RETURN(const auto matches, FindPattern(split.pattern, piece.text, cancelled));
    for (const auto& [from, to] : Cut(WithGaps(matches, piece.text.size(), split.invert), split.behavior)) {
      out->push_back({piece.text.substr(from, to - from), piece.at_start && from == 0});
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const PreTokenizer::Metaspace& metaspace) {
    std::string& text = storage->emplace_back();
    const bool prepend = metaspace.prepend == PreTokenizer::PrependScheme::kAlways ||
                         (metaspace.prepend == PreTokenizer::PrependScheme::kFirst && piece.at_start);
    const bool starts_with_space = piece.text.front() == ' ' || piece.text.starts_with(metaspace.replacement);
    if (prepend && !starts_with_space) text = metaspace.replacement;
    for (const char c : piece.text) {
      if (c == ' ') {
        text.append(metaspace.replacement);
      } else {
        text.push_back(c);
      }
    }
    if (!metaspace.split) {
      out->push_back({text, piece.at_start});
      return absl::OkStatus();
    }
    const PreTokenizer::Split split{{metaspace.replacement, nullptr}, Behavior::kMergedWithNext, false};
    return ApplyStep{{text, piece.at_start}, cancelled, storage, out}(split);
  }

  absl::Status operator()(const PreTokenizer::PrefixSpace&) {
    if (piece.text.front() == ' ') {
      out->push_back(piece);
    } else {
      out->push_back({storage->emplace_back(" " + std::string(piece.text)), piece.at_start});
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::vector<std::string_view>> PreTokenizer::Apply(std::string_view text, bool at_start,
                                                                  const std::function<bool()>& cancelled,
                                                                  std::deque<std::string>* storage) const {
  std::vector<Piece> pieces;
  if (!text.empty()) pieces.push_back({text, at_start});
  for (const Step& step : steps_) {
    std::vector<Piece> next;
    next.reserve(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i % 4096 == 4095 && cancelled && cancelled()) return Cancelled("tokenization cancelled");
      BATON_RETURN_IF_ERROR(std::visit(ApplyStep{pieces[i], cancelled, storage, &next}, step));
    }
    pieces = std::move(next);
  }
  std::vector<std::string_view> texts;
  texts.reserve(pieces.size());
  for (const Piece& piece : pieces) texts.push_back(piece.text);
  return texts;
}

}  // namespace baton
