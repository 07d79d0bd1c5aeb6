#include "common/text/jinja_string_methods.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "utf8proc.h"

namespace baton::jinja {

absl::StatusOr<Value> JoinValues(Runtime& runtime, const Text& separator, const std::vector<Value>& values) {
  Text result;
  bool first = true;
  for (const Value& value : values) {
    if (!first) result.Append(separator);
    first = false;
    if (value.IsString()) {
      result.Append(value.text());
    } else {
      BATON_ASSIGN_OR_RETURN(const Text text, runtime.ToText(value));
      result.Append(text);
    }
    BATON_RETURN_IF_ERROR(runtime.budget().Step());
    BATON_RETURN_IF_ERROR(runtime.budget().CheckString(result.size()));
  }
  return runtime.NewString(std::move(result));
}

absl::StatusOr<Value> ReplaceText(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t limit) {
  BATON_RETURN_IF_ERROR(runtime.budget().CheckString(ReplacedSize(text, from.bytes(), to.size(), limit)));
  return runtime.NewString(Replace(text, from.bytes(), to, limit));
}

namespace {

absl::StatusOr<const Text*> TextArgument(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  if (value == nullptr) return InvalidArgument("argument '%s' is missing", std::string(name));
  if (!value->IsString()) return Runtime::TypeError("argument '" + std::string(name) + "'", *value);
  return &value->text();
}

// Null for None and for no argument.
absl::StatusOr<const std::string*> OptionalCharacters(const Arguments& arguments, std::string_view name) {
  const Value* value = arguments.Find(0, name);
  if (value == nullptr || value->IsNone()) return nullptr;
  if (!value->IsString()) return Runtime::TypeError("argument '" + std::string(name) + "'", *value);
  return &value->bytes();
}

absl::StatusOr<int64_t> OptionalLimit(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  if (value == nullptr) return -1;
  if (!value->IsInteger()) return Runtime::TypeError("argument '" + std::string(name) + "'", *value);
  return value->integer();
}

template <bool kLeft, bool kRight>
absl::StatusOr<Value> StripMethod(Runtime& runtime, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const std::string* characters, OptionalCharacters(arguments, "chars"));
  return runtime.NewString(Strip(text, characters, kLeft, kRight));
}

template <bool kFromRight>
absl::StatusOr<Value> SplitMethod(Runtime& runtime, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const std::string* separator, OptionalCharacters(arguments, "sep"));
  if (separator != nullptr && separator->empty()) return InvalidArgument("the separator of split is empty");
  BATON_ASSIGN_OR_RETURN(const int64_t limit, OptionalLimit(arguments, 1, "maxsplit"));
  std::vector<Text> pieces = Split(text, separator, limit, kFromRight, runtime.budget().limits().list_items);
  BATON_RETURN_IF_ERROR(runtime.budget().ReserveItems(pieces.size()));
  return runtime.NewListOfTexts(std::move(pieces));
}

absl::StatusOr<Value> SplitLinesMethod(Runtime& runtime, const Text& text, const Arguments& arguments) {
  const Value* keep_ends = arguments.Find(0, "keepends");
  std::vector<Text> lines =
      SplitLines(text, keep_ends != nullptr && keep_ends->Truth(), runtime.budget().limits().list_items);
  BATON_RETURN_IF_ERROR(runtime.budget().ReserveItems(lines.size()));
  return runtime.NewListOfTexts(std::move(lines));
}

// The first argument is a string or a tuple of strings.
template <bool kAtStart>
absl::StatusOr<Value> HasAffix(Runtime& runtime, const Text& text, const Arguments& arguments) {
  const std::string_view bytes = text.bytes();
  auto matches = [&](std::string_view affix) {
    if (affix.size() > bytes.size()) return false;
    return (kAtStart ? bytes.substr(0, affix.size()) : bytes.substr(bytes.size() - affix.size())) == affix;
  };
  const Value* affixes = arguments.Find(0, "prefix");
  if (affixes != nullptr && affixes->Is<List*>()) {
    for (const Value& affix : affixes->As<List*>()->items) {
      BATON_RETURN_IF_ERROR(runtime.budget().Step());
      if (!affix.IsString()) return Runtime::TypeError("a prefix or suffix", affix);
      if (matches(affix.bytes())) return Value(true);
    }
    return Value(false);
  }
  BATON_ASSIGN_OR_RETURN(const Text* affix, TextArgument(arguments, 0, "prefix"));
  return Value(matches(affix->bytes()));
}

template <bool kAtStart>
absl::StatusOr<Value> RemoveAffix(Runtime& runtime, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const Value has, HasAffix<kAtStart>(runtime, text, arguments));
  BATON_ASSIGN_OR_RETURN(const Text* affix, TextArgument(arguments, 0, "prefix"));
  if (!has.Truth()) return runtime.NewString(text);
  return runtime.NewString(kAtStart ? text.Slice(affix->size(), text.size())
                                    : text.Slice(0, text.size() - affix->size()));
}

absl::StatusOr<Value> ReplaceMethod(Runtime& runtime, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* from, TextArgument(arguments, 0, "old"));
  BATON_ASSIGN_OR_RETURN(const Text* to, TextArgument(arguments, 1, "new"));
  BATON_ASSIGN_OR_RETURN(const int64_t limit, OptionalLimit(arguments, 2, "count"));
  return ReplaceText(runtime, text, *from, *to, limit);
}

template <Case kCase>
absl::StatusOr<Value> CaseMethod(Runtime& runtime, const Text& text, const Arguments&) {
  return runtime.NewString(ChangeCase(text, kCase));
}

template <bool kFromRight>
absl::StatusOr<Value> FindMethod(Runtime&, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* wanted, TextArgument(arguments, 0, "sub"));
  const size_t found = kFromRight ? FindLast(text.bytes(), wanted->bytes()) : Find(text.bytes(), wanted->bytes());
  if (found == std::string::npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(CountCodePoints(std::string_view(text.bytes()).substr(0, found))));
}

absl::StatusOr<Value> IndexMethod(Runtime& runtime, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(Value found, FindMethod<false>(runtime, text, arguments));
  if (found.integer() < 0) return InvalidArgument("substring not found");
  return found;
}

absl::StatusOr<Value> CountMethod(Runtime&, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* wanted, TextArgument(arguments, 0, "sub"));
  if (wanted->empty()) return Value(static_cast<int64_t>(CountCodePoints(text.bytes())) + 1);
  const size_t removed = text.size() - ReplacedSize(text, wanted->bytes(), 0, -1);
  return Value(static_cast<int64_t>(removed / wanted->size()));
}

absl::StatusOr<Value> JoinMethod(Runtime& runtime, const Text& text, const Arguments& arguments) {
  const Value* items = arguments.Find(0, "iterable");
  if (items == nullptr) return InvalidArgument("join needs what it joins");
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> values, runtime.Iterate(*items));
  for (const Value& value : values) {
    if (!value.IsString()) return Runtime::TypeError("an item that is joined", value);
  }
  return JoinValues(runtime, text, values);
}

template <bool kFromRight>
absl::StatusOr<Value> PartitionMethod(Runtime& runtime, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* separator, TextArgument(arguments, 0, "sep"));
  if (separator->empty()) return InvalidArgument("the separator of partition is empty");
  const size_t found = kFromRight ? FindLast(text.bytes(), separator->bytes()) : Find(text.bytes(), separator->bytes());
  std::vector<Text> parts(3);
  if (found == std::string::npos) {
    parts[kFromRight ? 2 : 0] = text;
  } else {
    parts = {text.Slice(0, found), text.Slice(found, found + separator->size()),
             text.Slice(found + separator->size(), text.size())};
  }
  BATON_ASSIGN_OR_RETURN(const Value list, runtime.NewListOfTexts(std::move(parts)));
  list.As<List*>()->is_tuple = true;
  return list;
}

absl::StatusOr<Value> ZeroFillMethod(Runtime& runtime, const Text& text, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const int64_t width, OptionalLimit(arguments, 0, "width"));
  const auto size = static_cast<int64_t>(CountCodePoints(text.bytes()));
  if (width <= size) return runtime.NewString(text);
  BATON_RETURN_IF_ERROR(runtime.budget().CheckString(static_cast<size_t>(width)));
  const bool has_sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  Text result = text.Slice(0, has_sign);
  result.Append(std::string(static_cast<size_t>(width - size), '0'), Origin::kTemplate);
  result.AppendSlice(text, has_sign, text.size());
  return runtime.NewString(std::move(result));
}

// Whether every code point satisfies `predicate` and there is at least one.
template <typename Predicate>
bool All(const Text& text, Predicate predicate) {
  for (size_t at = 0; at < text.size(); at = NextCodePoint(text.bytes(), at)) {
    const int32_t code_point = CodePointAt(text.bytes(), at);
    if (code_point < 0 || !predicate(code_point)) return false;
  }
  return !text.empty();
}

bool IsLetter(int32_t code_point) {
  const auto category = utf8proc_category(code_point);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool IsDecimal(int32_t code_point) { return utf8proc_category(code_point) == UTF8PROC_CATEGORY_ND; }

template <bool (*kPredicate)(int32_t)>
absl::StatusOr<Value> AllMethod(Runtime&, const Text& text, const Arguments&) {
  return Value(All(text, kPredicate));
}

absl::StatusOr<Value> IsAlphanumericMethod(Runtime&, const Text& text, const Arguments&) {
  return Value(All(text, [](int32_t code_point) { return IsLetter(code_point) || IsDecimal(code_point); }));
}

// No code point of the wrong case, and one of the right case.
template <utf8proc_category_t kWanted, utf8proc_category_t kUnwanted>
absl::StatusOr<Value> IsCaseMethod(Runtime&, const Text& text, const Arguments&) {
  bool found = false;
  for (size_t at = 0; at < text.size(); at = NextCodePoint(text.bytes(), at)) {
    const auto category = utf8proc_category(CodePointAt(text.bytes(), at));
    if (category == kUnwanted || category == UTF8PROC_CATEGORY_LT) return Value(false);
    found = found || category == kWanted;
  }
  return Value(found);
}

constexpr std::pair<std::string_view, StringMethod> kMethods[] = {
    {"strip", StripMethod<true, true>},
    {"lstrip", StripMethod<true, false>},
    {"rstrip", StripMethod<false, true>},
    {"split", SplitMethod<false>},
    {"rsplit", SplitMethod<true>},
    {"splitlines", SplitLinesMethod},
    {"startswith", HasAffix<true>},
    {"endswith", HasAffix<false>},
    {"removeprefix", RemoveAffix<true>},
    {"removesuffix", RemoveAffix<false>},
    {"replace", ReplaceMethod},
    {"upper", CaseMethod<Case::kUpper>},
    {"lower", CaseMethod<Case::kLower>},
    {"title", CaseMethod<Case::kTitle>},
    {"capitalize", CaseMethod<Case::kCapitalize>},
    {"find", FindMethod<false>},
    {"rfind", FindMethod<true>},
    {"index", IndexMethod},
    {"count", CountMethod},
    {"join", JoinMethod},
    {"partition", PartitionMethod<false>},
    {"rpartition", PartitionMethod<true>},
    {"zfill", ZeroFillMethod},
    {"isdigit", AllMethod<IsDecimal>},
    {"isdecimal", AllMethod<IsDecimal>},
    {"isnumeric", AllMethod<IsDecimal>},
    {"isalpha", AllMethod<IsLetter>},
    {"isalnum", IsAlphanumericMethod},
    {"isspace", AllMethod<IsSpace>},
    {"islower", IsCaseMethod<UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LU>},
    {"isupper", IsCaseMethod<UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL>},
};

}  // namespace

StringMethod FindStringMethod(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kMethods), std::end(kMethods), [&](const auto& entry) { return entry.first == name; });
  return found == std::end(kMethods) ? nullptr : found->second;
}

}  // namespace baton::jinja
