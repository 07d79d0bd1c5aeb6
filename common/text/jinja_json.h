#pragma once

// Values from a caller's JSON, and the filter tojson, which prints as Python's json.dumps does.

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/text/jinja_runtime.h"
#include "nlohmann/json.hpp"

namespace baton::jinja {

// Every string in it has `origin`. Nesting is bounded by the budget.
absl::StatusOr<Value> FromJson(Runtime& runtime, const nlohmann::ordered_json& json, Origin origin);

struct JsonStyle {
  bool ensure_ascii = false;  // as transformers sets it
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; none: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
absl::StatusOr<Text> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);

// tojson(ensure_ascii, indent, separators, sort_keys)
absl::StatusOr<Value> ToJsonFilter(Runtime& runtime, const Value& value, const Arguments& arguments);

}  // namespace baton::jinja
