#pragma once

// The "pre_tokenizer" section of tokenizer.json: cuts text into the pieces that merges never cross.

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/text/json_reader.h"
#include "common/text/pattern.h"

namespace baton {

// Immutable.
class PreTokenizer {
 public:
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class PrependScheme { kAlways, kFirst, kNever };
  struct Split {
    Pattern pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;  // what the pattern does not match is the match
  };
  struct Metaspace {
    std::string replacement;  // for every space, usually U+2581
    PrependScheme prepend = PrependScheme::kAlways;
    bool split = true;
  };
  struct PrefixSpace {};  // ByteLevel's add_prefix_space
  using Step = std::variant<Split, Metaspace, PrefixSpace>;

  PreTokenizer() = default;
  PreTokenizer(std::vector<Step> steps, bool byte_level) : steps_(std::move(steps)), byte_level_(byte_level) {}

  // Null: none, a text is one piece. UNIMPLEMENTED names an unknown type.
  static absl::StatusOr<PreTokenizer> FromJson(const Json* json);

  // Whether pieces are to be read as bytes (ByteLevel): the vocabulary spells bytes.
  bool byte_level() const { return byte_level_; }

  // Cuts `text`, valid UTF-8. The pieces point into `text` and `storage`. `at_start`: nothing comes before `text` in
  // the input. `cancelled` may be null; CANCELLED.
  absl::StatusOr<std::vector<std::string_view>> Apply(std::string_view text, bool at_start,
                                                      const std::function<bool()>& cancelled,
                                                      std::deque<std::string>* storage) const;

 private:
  std::vector<Step> steps_;
  bool byte_level_ = false;
};

// GPT-2's splitting pattern, which ByteLevel applies with use_regex.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace baton
