#include "common/text/jinja_filters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "common/text/jinja_json.h"
#include "common/text/jinja_number.h"
#include "common/text/jinja_operators.h"
#include "common/text/jinja_string_methods.h"

namespace baton::jinja {

namespace {

Filter FindFilter(std::string_view name) {
  for (const std::vector<FilterEntry>* half : {&TextAndNumberFilters(), &SequenceFilters()}) {
    for (const auto& [known, filter] : *half) {
      if (known == name) return filter;
    }
  }
  return nullptr;
}

template <Case kCase>
absl::StatusOr<Value> CaseFilter(Runtime& runtime, const Value& value, const Arguments&) {
  BATON_ASSIGN_OR_RETURN(const Text text, runtime.ToText(value));
  return runtime.NewString(ChangeCase(text, kCase));
}

// Unlike str.title, words also begin after brackets and hyphens only, not after any non-letter.
absl::StatusOr<Value> TitleFilter(Runtime& runtime, const Value& value, const Arguments&) {
  BATON_ASSIGN_OR_RETURN(const Text text, runtime.ToText(value));
  Text result;
  auto is_separator = [&](size_t at) {
    const int32_t code_point = CodePointAt(text.bytes(), at);
    return IsSpace(code_point) ||
           (code_point > 0 && code_point < 0x80 &&
            std::string_view("-({[<").find(static_cast<char>(code_point)) != std::string_view::npos);
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    while (at < text.size() && !is_separator(at)) at = NextCodePoint(text.bytes(), at);
    result.Append(ChangeCase(text.Slice(begin, at), Case::kCapitalize));
    const size_t separators = at;
    while (at < text.size() && is_separator(at)) at = NextCodePoint(text.bytes(), at);
    result.AppendSlice(text, separators, at);
  }
  return runtime.NewString(std::move(result));
}

absl::StatusOr<Value> TrimFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const Text text, runtime.ToText(value));
  const Value* characters = arguments.Find(0, "chars");
  if (characters == nullptr || characters->IsNone()) return runtime.NewString(Strip(text, nullptr, true, true));
  if (!characters->IsString()) return Runtime::TypeError("the characters to trim", *characters);
  return runtime.NewString(Strip(text, &characters->bytes(), true, true));
}

absl::StatusOr<Value> ReplaceFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value* old_value = arguments.Find(0, "old");
  const Value* new_value = arguments.Find(1, "new");
  const Value* count = arguments.Find(2, "count");
  if (old_value == nullptr || new_value == nullptr) return InvalidArgument("replace needs an old and a new text");
  if (count != nullptr && !count->IsInteger() && !count->IsNone()) return Runtime::TypeError("a count", *count);
  BATON_ASSIGN_OR_RETURN(const Text text, runtime.ToText(value));
  BATON_ASSIGN_OR_RETURN(const Text from, runtime.ToText(*old_value));
  BATON_ASSIGN_OR_RETURN(const Text to, runtime.ToText(*new_value));
  return ReplaceText(runtime, text, from, to, count != nullptr && count->IsInteger() ? count->integer() : -1);
}

absl::StatusOr<Value> StringFilter(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.IsString()) return value;
  BATON_ASSIGN_OR_RETURN(Text text, runtime.ToText(value));
  return runtime.NewString(std::move(text));
}

absl::StatusOr<Value> EscapeFilter(Runtime& runtime, const Value& value, const Arguments&) {
  BATON_ASSIGN_OR_RETURN(Text text, runtime.ToText(value));
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&", "&amp;"}, {">", "&gt;"}, {"<", "&lt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  for (const auto& [from, to] : kEntities) {
    BATON_RETURN_IF_ERROR(runtime.budget().CheckString(ReplacedSize(text, from, to.size(), -1)));
    text = Replace(text, from, Text(std::string(to), Origin::kCaller), -1);
  }
  return runtime.NewString(std::move(text));
}

absl::StatusOr<Value> IndentFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value* width = arguments.Find(0, "width");
  const Value* first = arguments.Find(1, "first");
  const Value* blank = arguments.Find(2, "blank");
  Text indent("    ", Origin::kTemplate);
  if (width != nullptr && width->IsString()) {
    indent = width->text();
  } else if (width != nullptr && width->IsInteger()) {
    indent =
        Text(std::string(static_cast<size_t>(std::clamp<int64_t>(width->integer(), 0, 1000)), ' '), Origin::kTemplate);
  } else if (width != nullptr) {
    return Runtime::TypeError("the width of indent", *width);
  }
  BATON_ASSIGN_OR_RETURN(Text text, runtime.ToText(value));
  text.Append("\n", Origin::kTemplate);
  const std::vector<Text> lines = SplitLines(text, false, runtime.budget().limits().list_items);
  BATON_RETURN_IF_ERROR(runtime.budget().ReserveItems(lines.size()));
  Text result;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result.Append("\n", Origin::kTemplate);
    const bool indents =
        i == 0 ? first != nullptr && first->Truth() : !lines[i].empty() || (blank != nullptr && blank->Truth());
    if (indents) result.Append(indent);
    result.Append(lines[i]);
    BATON_RETURN_IF_ERROR(runtime.budget().CheckString(result.size()));
  }
  return runtime.NewString(std::move(result));
}

absl::StatusOr<Value> FormatFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const Text text, runtime.ToText(value));
  return FormatPercent(runtime, text, arguments.positional, false);
}

absl::StatusOr<Value> DefaultFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value* also_false = arguments.Find(1, "boolean");
  if (!value.IsUndefined() && !(also_false != nullptr && also_false->Truth() && !value.Truth())) return value;
  const Value* otherwise = arguments.Find(0, "default_value");
  return otherwise != nullptr ? absl::StatusOr<Value>(*otherwise) : runtime.NewString(Text());
}

absl::StatusOr<Value> IntFilter(Runtime&, const Value& value, const Arguments& arguments) {
  const Value* otherwise = arguments.Find(0, "default");
  const Value* base = arguments.Find(1, "base");
  if (value.IsUndefined()) return Runtime::UndefinedError(value);
  if (value.IsInteger()) return Value(value.integer());
  std::optional<double> number;
  if (value.IsString()) {
    const int64_t wanted_base = base != nullptr && base->IsInteger() ? base->integer() : 10;
    if (wanted_base < 2 || wanted_base > 36) return InvalidArgument("base %d is not within 2 and 36", wanted_base);
    if (const auto parsed = ParseInteger(value.bytes(), static_cast<int>(wanted_base))) return Value(*parsed);
    number = ParseFloat(value.bytes());
  } else if (value.Is<double>()) {
    number = value.As<double>();
  }
  if (number && std::isfinite(*number)) {
    if (std::abs(*number) < 9.2e18) return Value(static_cast<int64_t>(*number));
    return InvalidArgument("%g does not fit in an integer of 64 bits", *number);
  }
  return otherwise != nullptr ? *otherwise : Value(int64_t{0});
}

absl::StatusOr<Value> FloatFilter(Runtime&, const Value& value, const Arguments& arguments) {
  const Value* otherwise = arguments.Find(0, "default");
  if (value.IsUndefined()) return Runtime::UndefinedError(value);
  if (value.IsNumber()) return Value(value.number());
  if (value.IsString()) {
    if (const auto parsed = ParseFloat(value.bytes())) return Value(*parsed);
  }
  return otherwise != nullptr ? *otherwise : Value(0.0);
}

absl::StatusOr<Value> AbsoluteFilter(Runtime&, const Value& value, const Arguments&) {
  if (value.Is<double>()) return Value(std::abs(value.As<double>()));
  if (!value.IsInteger()) return Runtime::TypeError("the operand of abs", value);
  if (value.integer() < 0) return Negate(value);
  return Value(value.integer());
}

absl::StatusOr<Value> RoundFilter(Runtime&, const Value& value, const Arguments& arguments) {
  const Value* precision = arguments.Find(0, "precision");
  const Value* method = arguments.Find(1, "method");
  if (!value.IsNumber()) return Runtime::TypeError("what is rounded", value);
  if (precision != nullptr && !precision->IsInteger()) return Runtime::TypeError("a precision", *precision);
  const int digits = precision == nullptr ? 0 : static_cast<int>(std::clamp<int64_t>(precision->integer(), -300, 300));
  const std::string_view how = method != nullptr && method->IsString() ? std::string_view(method->bytes()) : "common";
  if (how == "common") {
    if (value.IsInteger() && digits >= 0) return Value(value.integer());
    return Value(RoundHalfEven(value.number(), digits));
  }
  if (how != "ceil" && how != "floor") return InvalidArgument("round's method is common, ceil or floor");
  const double scale = std::pow(10.0, digits);
  return Value((how == "ceil" ? std::ceil(value.number() * scale) : std::floor(value.number() * scale)) / scale);
}

absl::StatusOr<Value> LengthFilter(Runtime& runtime, const Value& value, const Arguments&) {
  BATON_ASSIGN_OR_RETURN(const int64_t length, runtime.Length(value));
  return Value(length);
}

}  // namespace

const std::vector<FilterEntry>& TextAndNumberFilters() {
  static const std::vector<FilterEntry> filters = {
      {"abs", AbsoluteFilter},
      {"capitalize", CaseFilter<Case::kCapitalize>},
      {"count", LengthFilter},
      {"d", DefaultFilter},
      {"default", DefaultFilter},
      {"e", EscapeFilter},
      {"escape", EscapeFilter},
      {"float", FloatFilter},
      {"forceescape", EscapeFilter},
      {"format", FormatFilter},
      {"indent", IndentFilter},
      {"int", IntFilter},
      {"length", LengthFilter},
      {"lower", CaseFilter<Case::kLower>},
      {"replace", ReplaceFilter},
      {"round", RoundFilter},
      {"safe", StringFilter},  // autoescaping is off
      {"string", StringFilter},
      {"title", TitleFilter},
      {"tojson", ToJsonFilter},
      {"trim", TrimFilter},
      {"upper", CaseFilter<Case::kUpper>},
  };
  return filters;
}

bool HasFilter(std::string_view name) { return FindFilter(name) != nullptr; }

absl::StatusOr<Value> ApplyFilter(Runtime& runtime, std::string_view name, const Value& value,
                                  const Arguments& arguments) {
  const Filter filter = FindFilter(name);
  if (filter == nullptr) return InvalidArgument("no filter named '%s'", std::string(name.substr(0, 40)));
  BATON_RETURN_IF_ERROR(
      runtime.budget().Step(1 + (value.IsString() ? static_cast<int64_t>(value.bytes().size() / 64) : 0)));
  return filter(runtime, value, arguments);
}

}  // namespace baton::jinja
