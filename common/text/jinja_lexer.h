#pragma once

// Cuts a template into tokens. White space is settled here, as jinja2 does with trim_blocks and lstrip_blocks on and
// keep_trailing_newline off: the tokens of kind kText are what the template prints.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace baton::jinja {

struct Position {
  int line = 1;
  int column = 1;  // in bytes, from 1
};

struct Token {
  enum class Kind {
    kText,
    kBlockBegin,
    kBlockEnd,
    kVariableBegin,
    kVariableEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string: with its escapes resolved
  int64_t integer = 0;
  double number = 0;
  Position at;
};

// The last token is kEnd. FAILED_PRECONDITION with line and column.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// "chat template, line 3, column 7: " in front of a reason.
absl::Status SyntaxError(Position at, std::string_view reason);

}  // namespace baton::jinja
