#pragma once

// Methods of strings, lists, dicts and loops, as value.name(...). The ones that change their object are left out, as in
// jinja2's immutable sandbox, but for list.append.

#include <string_view>

#include "common/base/status.h"
#include "common/text/jinja_runtime.h"

namespace baton::jinja {

bool HasMethod(const Value& receiver, std::string_view name);
absl::StatusOr<Value> CallMethod(Runtime& runtime, const Value& receiver, std::string_view name,
                                 const Arguments& arguments);

}  // namespace baton::jinja
