// `format % values`, as Python's printf-style formatting of strings and numbers.

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja_operators.h"

namespace baton::jinja {

namespace {

constexpr int kMaximumWidth = 1000;

struct Conversion {
  bool left = false, plus = false, space = false, zero = false;
  int width = 0;
  int precision = -1;
  char type = 's';
};

// Reads what follows a percent sign; moves `at` behind it.
absl::StatusOr<Conversion> ParseConversion(std::string_view format, size_t& at) {
  Conversion conversion;
  auto number = [&] {
    int value = 0;
    for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
      value = std::min(value * 10 + (format[at] - '0'), kMaximumWidth);
    }
    return value;
  };
  for (; at < format.size(); ++at) {
    if (format[at] == '-') {
      conversion.left = true;
    } else if (format[at] == '+') {
      conversion.plus = true;
    } else if (format[at] == ' ') {
      conversion.space = true;
    } else if (format[at] == '0') {
      conversion.zero = true;
    } else {
      break;
    }
  }
  conversion.width = number();
  if (at < format.size() && format[at] == '.') {
    ++at;
    conversion.precision = number();
  }
  if (at >= format.size()) return InvalidArgument("a format ends within a conversion");
  conversion.type = format[at++];
  return conversion;
}

absl::StatusOr<std::string> FormatNumber(const Conversion& conversion, const Value& value) {
  if (!value.IsNumber()) return Runtime::TypeError("a formatted number", value);
  std::string spec = "%";
  if (conversion.left) spec += '-';
  if (conversion.plus) spec += '+';
  if (conversion.space) spec += ' ';
  if (conversion.zero) spec += '0';
  spec += "*";
  if (conversion.precision >= 0) spec += "." + std::to_string(conversion.precision);
  if (value.number() != value.number()) return std::string("nan");
  const bool is_integer =
      conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'x' || conversion.type == 'X';
  if (is_integer) spec += "ll";
  spec += conversion.type;
  std::string buffer(2 * kMaximumWidth + 400, '\0');
  const int size =
      is_integer ? std::snprintf(buffer.data(), buffer.size(), spec.c_str(), conversion.width,
                                 static_cast<long long>(value.IsInteger() ? value.integer()
                                                                          : std::clamp(value.number(), -9e18, 9e18)))
                 : std::snprintf(buffer.data(), buffer.size(), spec.c_str(), conversion.width, value.number());
  buffer.resize(static_cast<size_t>(std::clamp<int>(size, 0, static_cast<int>(buffer.size()))));
  return buffer;
}

}  // namespace

absl::StatusOr<Value> FormatPercent(Runtime& runtime, const Text& format, const std::vector<Value>& values,
                                    bool may_be_unused) {
  Text result;
  size_t next_value = 0;
  const std::string_view bytes = format.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const size_t percent = std::min(bytes.find('%', at), bytes.size());
    result.AppendSlice(format, at, percent);
    if (percent == bytes.size()) break;
    at = percent + 1;
    if (at < bytes.size() && bytes[at] == '%') {
      result.AppendSlice(format, at, at + 1);
      ++at;
      continue;
    }
    BATON_ASSIGN_OR_RETURN(const Conversion conversion, ParseConversion(bytes, at));
    if (next_value >= values.size()) return InvalidArgument("not enough arguments for a format");
    const Value& value = values[next_value++];
    if (conversion.type == 's' || conversion.type == 'r') {
      Text piece;
      if (conversion.type == 'r') {
        BATON_RETURN_IF_ERROR(runtime.AppendRepr(piece, value));
      } else {
        BATON_ASSIGN_OR_RETURN(piece, runtime.ToText(value));
      }
      if (conversion.precision >= 0) {
        piece.Truncate(OffsetOfCodePoint(piece.bytes(), static_cast<size_t>(conversion.precision)));
      }
      const auto width = static_cast<int>(std::min<size_t>(CountCodePoints(piece.bytes()), kMaximumWidth));
      const std::string padding(static_cast<size_t>(std::max(0, conversion.width - width)), ' ');
      if (!conversion.left) result.Append(padding, Origin::kTemplate);
      result.Append(piece);
      if (conversion.left) result.Append(padding, Origin::kTemplate);
    } else if (std::string_view("dixXfFeEgG").find(conversion.type) != std::string_view::npos) {
      BATON_ASSIGN_OR_RETURN(const std::string number, FormatNumber(conversion, value));
      result.Append(number, Origin::kTemplate);
    } else {
      return InvalidArgument("unsupported conversion %%%c in a format", conversion.type);
    }
    BATON_RETURN_IF_ERROR(runtime.budget().ReserveString(result.size(), 0));
  }
  if (next_value < values.size() && !may_be_unused) return InvalidArgument("not all arguments of a format are used");
  return runtime.NewString(std::move(result));
}

}  // namespace baton::jinja
