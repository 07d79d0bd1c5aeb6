#pragma once

// The tests templates may use, `value is name(arguments)`.

#include <string_view>

#include "common/base/status.h"
#include "common/text/jinja_runtime.h"

namespace baton::jinja {

bool HasTest(std::string_view name);
absl::StatusOr<bool> ApplyTest(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace baton::jinja
