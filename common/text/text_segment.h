#pragma once

// A piece of a prompt together with who wrote it.
//
// A chat template's own literals are trusted: the tokenizer may read control tokens in them. What came from a caller
// (message content, tool results, tool descriptions, an assistant prefix) is not: it never becomes a control token.
// Only the concatenation of all `text` is the prompt; neighbouring segments of one kind may be merged freely.

#include <string>

namespace baton {

struct TextSegment {
  std::string text;
  bool trusted = false;

  friend bool operator==(const TextSegment&, const TextSegment&) = default;
};

}  // namespace baton
