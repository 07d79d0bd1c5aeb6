// Attributes, items and slices of values.

#include <algorithm>

#include "common/text/jinja_methods.h"
#include "common/text/jinja_runtime.h"

namespace baton::jinja {

namespace {

Value LoopAttribute(const Loop& loop, std::string_view name, const Expression* source) {
  const auto length = static_cast<int64_t>(loop.items.size());
  if (name == "index") return loop.index0 + 1;
  if (name == "index0") return loop.index0;
  if (name == "first") return loop.index0 == 0;
  if (name == "last") return loop.index0 + 1 == length;
  if (name == "length") return length;
  if (name == "revindex") return length - loop.index0;
  if (name == "revindex0") return length - loop.index0 - 1;
  if (name == "depth") return loop.depth0 + 1;
  if (name == "depth0") return loop.depth0;
  if (name == "previtem" && loop.index0 > 0) return loop.items[static_cast<size_t>(loop.index0 - 1)];
  if (name == "nextitem" && loop.index0 + 1 < length) return loop.items[static_cast<size_t>(loop.index0 + 1)];
  return Undefined{source};
}

}  // namespace

absl::StatusOr<Value> Runtime::Attribute(const Value& value, std::string_view name, const Expression* source) {
  if (value.IsUndefined()) return UndefinedError(value);
  if (HasMethod(value, name)) {
    BATON_ASSIGN_OR_RETURN(
        Callable * method,
        NewCallable({.kind = Callable::Kind::kMethod, .name = std::string(name), .receiver = value}));
    return Value(method);
  }
  const Value* found = nullptr;
  if (const auto* dict = value.If<Dict*>()) found = (*dict)->Find(name);
  if (const auto* space = value.If<Namespace*>()) found = (*space)->attributes.Find(name);
  if (const auto* loop = value.If<Loop*>()) return LoopAttribute(**loop, name, source);
  if (const auto* callable = value.If<Callable*>(); callable != nullptr && name == "name") {
    return NewString((*callable)->name, Origin::kTemplate);
  }
  return found != nullptr ? *found : Value(Undefined{source});
}

absl::StatusOr<Value> Runtime::Item(const Value& value, const Value& key, const Expression* source) {
  if (value.IsUndefined()) return UndefinedError(value);
  if (const auto* dict = value.If<Dict*>()) {
    if (const Value* found = (*dict)->Find(key)) return *found;
  }
  if (key.IsInteger()) {
    int64_t index = key.integer();
    if (const auto* list = value.If<List*>()) {
      const auto size = static_cast<int64_t>((*list)->items.size());
      if (index < 0) index += size;
      if (index >= 0 && index < size) return (*list)->items[static_cast<size_t>(index)];
    } else if (value.IsString()) {
      BATON_ASSIGN_OR_RETURN(const int64_t size, Length(value));
      if (index < 0) index += size;
      if (index >= 0 && index < size) {
        const size_t begin = OffsetOfCodePoint(value.bytes(), static_cast<size_t>(index));
        return NewString(value.text().Slice(begin, NextCodePoint(value.bytes(), begin)));
      }
    }
  }
  if (key.IsString() && !value.Is<Dict*>()) return Attribute(value, key.bytes(), source);
  if (key.IsString() && HasMethod(value, key.bytes())) return Attribute(value, key.bytes(), source);
  return Value(Undefined{source});
}

namespace {

absl::StatusOr<int64_t> Bound(const Value& value, int64_t otherwise) {
  if (value.IsNone()) return otherwise;
  if (value.IsInteger()) return value.integer();
  return Runtime::TypeError("a bound of a slice", value);
}

struct Range {
  int64_t begin, end, step;

  int64_t Count() const {
    if (step > 0) return begin < end ? (end - begin - 1) / step + 1 : 0;
    return begin > end ? (begin - end - 1) / -step + 1 : 0;
  }
};

// As Python's slice.indices.
absl::StatusOr<Range> ResolveSlice(int64_t size, const Value& begin, const Value& end, const Value& step) {
  Range range{};
  BATON_ASSIGN_OR_RETURN(range.step, Bound(step, 1));
  if (range.step == 0) return InvalidArgument("the step of a slice cannot be 0");
  range.step = std::clamp<int64_t>(range.step, -size - 1, size + 1);
  const int64_t lowest = range.step > 0 ? 0 : -1;
  const int64_t highest = range.step > 0 ? size : size - 1;
  auto clamp = [&](int64_t index) {
    return std::clamp(index < 0 ? (index < -size ? lowest : index + size) : index, lowest, highest);
  };
  BATON_ASSIGN_OR_RETURN(const int64_t first, Bound(begin, range.step > 0 ? 0 : size));
  range.begin = clamp(first);
  if (end.IsNone()) {
    range.end = range.step > 0 ? highest : lowest;
  } else {
    BATON_ASSIGN_OR_RETURN(const int64_t last, Bound(end, 0));
    range.end = clamp(last);
  }
  return range;
}

}  // namespace

absl::StatusOr<Value> Runtime::Slice(const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (value.IsUndefined()) return UndefinedError(value);
  if (!value.IsString() && !value.Is<List*>()) return Value(Undefined{});  // as any item that is not there
  BATON_ASSIGN_OR_RETURN(const int64_t size, Length(value));
  BATON_ASSIGN_OR_RETURN(const Range range, ResolveSlice(size, begin, end, step));
  const int64_t count = range.Count();
  if (const auto* list = value.If<List*>()) {
    BATON_RETURN_IF_ERROR(budget_.ReserveItems(static_cast<size_t>(count)));
    std::vector<Value> items;
    for (int64_t i = 0; i < count; ++i)
      items.push_back((*list)->items[static_cast<size_t>(range.begin + i * range.step)]);
    return NewList(std::move(items), (*list)->is_tuple);
  }
  const Text& text = value.text();
  if (count == 0) return NewString(Text());
  if (range.step == 1) {
    const size_t first = OffsetOfCodePoint(text.bytes(), static_cast<size_t>(range.begin));
    const std::string_view rest = std::string_view(text.bytes()).substr(first);
    return NewString(text.Slice(first, first + OffsetOfCodePoint(rest, static_cast<size_t>(count))));
  }
  BATON_RETURN_IF_ERROR(budget_.Step(size));
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); at = NextCodePoint(text.bytes(), at)) offsets.push_back(at);
  Text result;
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = offsets[static_cast<size_t>(range.begin + i * range.step)];
    result.AppendSlice(text, at, NextCodePoint(text.bytes(), at));
  }
  return NewString(std::move(result));
}

}  // namespace baton::jinja
