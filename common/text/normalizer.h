#pragma once

// The "normalizer" section of tokenizer.json: what happens to text before it is cut into pieces.

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/text/json_reader.h"
#include "common/text/pattern.h"
#include "common/text/unicode_normalization.h"

namespace baton {

// Immutable.
class Normalizer {
 public:
  struct Prepend {
    std::string text;  // before text that is not empty
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Strip {
    bool left = true, right = true;
  };
  using Step = std::variant<NormalizationForm, Prepend, Replace, Strip>;

  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // Null: no normalizer. UNIMPLEMENTED names an unknown type.
  static absl::StatusOr<Normalizer> FromJson(const Json* json);

  bool empty() const { return steps_.empty(); }
  absl::StatusOr<std::string> Apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace baton
