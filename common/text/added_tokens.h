#pragma once

// Added tokens: strings with an id of their own that are found in a text before anything else is done to it.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"
#include "common/base/status.h"

namespace baton {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // a control token
  bool normalized = false;   // found in normalized text instead of the raw text
  bool lstrip = false;       // swallows all white space before it
  bool rstrip = false;       // and after it
  bool single_word = false;  // only where no word character touches it
};

// A stretch of text, or a token found in it.
struct TextOrToken {
  std::string_view text;
  const AddedToken* token = nullptr;  // null: `text` is still to be encoded
};

// Finds the leftmost, and of those the longest, of a set of added tokens. Immutable once built.
class AddedTokenFinder {
 public:
  // `token` must outlive the finder. Of several tokens with the same `content` the first stays.
  void Add(std::string_view content, const AddedToken* token);

  // Whether a token may be taken at bytes [begin, end).
  using Filter = std::function<bool(const AddedToken&, size_t begin, size_t end)>;

  // Cuts `text`, valid UTF-8, into tokens and the text between them, in order, no empty text.
  std::vector<TextOrToken> Find(std::string_view text, const Filter& allowed) const;

 private:
  struct Node {
    absl::flat_hash_map<uint8_t, uint32_t> next;
    const AddedToken* token = nullptr;
  };

  // Longest allowed token at `begin`; its end in `end`.
  const AddedToken* LongestAt(std::string_view text, size_t begin, const Filter& allowed, size_t* end) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  bool first_byte_[256] = {};
};

}  // namespace baton
