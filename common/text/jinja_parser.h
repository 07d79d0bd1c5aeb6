#pragma once

#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "common/text/jinja_ast.h"

namespace baton::jinja {

// Parses a template. FAILED_PRECONDITION with line and column for what is no valid template, uses a tag, filter or test
// that Baton does not have, or nests deeper than any real template does. Stack use is bounded.
absl::StatusOr<std::shared_ptr<const Program>> ParseProgram(std::string_view source);

}  // namespace baton::jinja
