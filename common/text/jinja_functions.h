#pragma once

// Functions every template may call: raise_exception, strftime_now, range, namespace, dict.

#include <ctime>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/text/jinja_runtime.h"

namespace baton::jinja {

bool HasFunction(std::string_view name);

// `raised` is set when the failure is the template's own raise_exception; its message is then the status' whole
// message.
absl::StatusOr<Value> CallFunction(Runtime& runtime, std::string_view name, const Arguments& arguments,
                                   const std::function<std::tm()>& clock, bool& raised);

// strftime with English names whatever the locale; the conversions chat templates use, others stay as they are.
std::string FormatTime(std::string_view format, const std::tm& time);

}  // namespace baton::jinja
