#pragma once

#include "common/base/status.h"
#include "common/text/jinja_ast.h"
#include "common/text/jinja_runtime.h"

namespace baton::jinja {

// Python's arithmetic on numbers, strings and lists. Integers have 64 bits; overflow is INVALID_ARGUMENT.
absl::StatusOr<Value> Calculate(Runtime& runtime, Operator op, const Value& a, const Value& b);
absl::StatusOr<Value> Negate(const Value& value);
absl::StatusOr<bool> Compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b);

// `format % values`.
absl::StatusOr<Value> FormatPercent(Runtime& runtime, const Text& format, const std::vector<Value>& values,
                                    bool may_be_unused);

}  // namespace baton::jinja
