#pragma once

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja_runtime.h"

namespace baton::jinja {

using StringMethod = absl::StatusOr<Value> (*)(Runtime& runtime, const Text& text, const Arguments& arguments);

// Null if strings have no such method.
StringMethod FindStringMethod(std::string_view name);

// separator.join(str(value) for value in values), for the method and the filter.
absl::StatusOr<Value> JoinValues(Runtime& runtime, const Text& separator, const std::vector<Value>& values);
absl::StatusOr<Value> ReplaceText(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t limit);

}  // namespace baton::jinja
