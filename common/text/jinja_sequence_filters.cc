// Filters that work on lists, dicts and other sequences.

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja_filters.h"
#include "common/text/jinja_operators.h"
#include "common/text/jinja_string_methods.h"
#include "common/text/jinja_tests.h"

namespace baton::jinja {

namespace {

// Follows a path such as "function.name" or 0; Undefined where it ends nowhere.
absl::StatusOr<Value> FollowPath(Runtime& runtime, Value value, const Value& path) {
  if (!path.IsString()) return runtime.Item(value, path, nullptr);
  const std::string_view bytes = path.bytes();
  for (size_t at = 0; at <= bytes.size();) {
    const size_t dot = std::min(bytes.find('.', at), bytes.size());
    const std::string_view part = bytes.substr(at, dot - at);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    Value key = index;
    if (part.empty() || parsed.ptr != part.data() + part.size() || parsed.ec != std::errc()) {
      BATON_ASSIGN_OR_RETURN(key, runtime.NewString(part, Origin::kTemplate));
    }
    BATON_ASSIGN_OR_RETURN(value, runtime.Item(value, key, nullptr));
    at = dot + 1;
  }
  return value;
}

absl::StatusOr<Value> Folded(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.IsString()) return value;
  return runtime.NewString(ChangeCase(value.text(), Case::kLower));
}

bool Flag(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  return value != nullptr && value->Truth();
}

struct Keyed {
  Value key, item;
};

// Sorts stably; comparing can fail, and std::sort cannot stop.
absl::Status SortByKey(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  absl::Status status;
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    if (!status.ok() || (a.key.IsUndefined() && b.key.IsUndefined())) return false;
    const absl::StatusOr<int> order = reverse ? runtime.Order(b.key, a.key) : runtime.Order(a.key, b.key);
    if (!order.ok()) {
      status = order.status();
      return false;
    }
    return *order < 0;
  });
  return status;
}

absl::StatusOr<std::vector<Keyed>> KeyItems(Runtime& runtime, const Value& value, const Value* attribute,
                                            bool case_sensitive) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, runtime.Iterate(value));
  std::vector<Keyed> keyed;
  for (Value& item : items) {
    Value key = item;
    if (attribute != nullptr && !attribute->IsNone()) {
      BATON_ASSIGN_OR_RETURN(key, FollowPath(runtime, item, *attribute));
    }
    BATON_ASSIGN_OR_RETURN(key, Folded(runtime, key, case_sensitive));
    keyed.push_back({std::move(key), std::move(item)});
  }
  return keyed;
}

absl::StatusOr<Value> ItemsOf(Runtime& runtime, std::vector<Keyed> keyed) {
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return runtime.NewList(std::move(items));
}

absl::StatusOr<Value> SortFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(
      auto keyed, KeyItems(runtime, value, arguments.Find(2, "attribute"), Flag(arguments, 1, "case_sensitive")));
  BATON_RETURN_IF_ERROR(SortByKey(runtime, keyed, Flag(arguments, 0, "reverse")));
  return ItemsOf(runtime, std::move(keyed));
}

absl::StatusOr<Value> UniqueFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(
      auto keyed, KeyItems(runtime, value, arguments.Find(1, "attribute"), Flag(arguments, 0, "case_sensitive")));
  std::vector<Keyed> kept;
  for (Keyed& candidate : keyed) {
    bool seen = false;
    for (size_t i = 0; i < kept.size() && !seen; ++i) {
      BATON_ASSIGN_OR_RETURN(seen, runtime.Equal(kept[i].key, candidate.key));
    }
    if (!seen) kept.push_back(std::move(candidate));
  }
  return ItemsOf(runtime, std::move(kept));
}

template <bool kMaximum>
absl::StatusOr<Value> ExtremeFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(
      auto keyed, KeyItems(runtime, value, arguments.Find(1, "attribute"), Flag(arguments, 0, "case_sensitive")));
  if (keyed.empty()) return Value(Undefined{});
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const int order, runtime.Order(keyed[i].key, keyed[best].key));
    if (kMaximum ? order > 0 : order < 0) best = i;
  }
  return keyed[best].item;
}

absl::StatusOr<Value> SumFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value* start = arguments.Find(1, "start");
  BATON_ASSIGN_OR_RETURN(const auto keyed, KeyItems(runtime, value, arguments.Find(0, "attribute"), true));
  Value sum = start != nullptr ? *start : Value(int64_t{0});
  for (const Keyed& entry : keyed) {
    BATON_ASSIGN_OR_RETURN(sum, Calculate(runtime, Operator::kAdd, sum, entry.key));
  }
  return sum;
}

absl::StatusOr<Value> DictSortFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value* by = arguments.Find(1, "by");
  if (!value.Is<Dict*>()) return Runtime::TypeError("the operand of dictsort", value);
  const bool by_value = by != nullptr && by->IsString() && by->bytes() == "value";
  std::vector<Keyed> keyed;
  for (const auto& [key, item] : value.As<Dict*>()->items) {
    BATON_ASSIGN_OR_RETURN(Value sort_key,
                           Folded(runtime, by_value ? item : key, Flag(arguments, 0, "case_sensitive")));
    BATON_ASSIGN_OR_RETURN(Value pair, runtime.NewList({key, item}, true));
    keyed.push_back({std::move(sort_key), std::move(pair)});
  }
  BATON_RETURN_IF_ERROR(SortByKey(runtime, keyed, Flag(arguments, 2, "reverse")));
  return ItemsOf(runtime, std::move(keyed));
}

absl::StatusOr<Value> ItemsFilter(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.IsUndefined()) return runtime.NewList({});
  if (!value.Is<Dict*>()) return Runtime::TypeError("the operand of items", value);
  std::vector<Value> items;
  for (const auto& [key, item] : value.As<Dict*>()->items) {
    BATON_ASSIGN_OR_RETURN(Value pair, runtime.NewList({key, item}, true));
    items.push_back(std::move(pair));
  }
  return runtime.NewList(std::move(items));
}

absl::StatusOr<Value> ListFilter(Runtime& runtime, const Value& value, const Arguments&) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, runtime.Iterate(value));
  return runtime.NewList(std::move(items));
}

absl::StatusOr<Value> FirstFilter(Runtime& runtime, const Value& value, const Arguments&) {
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, runtime.Iterate(value));
  return items.empty() ? Value(Undefined{}) : items.front();
}

absl::StatusOr<Value> LastFilter(Runtime& runtime, const Value& value, const Arguments&) {
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, runtime.Iterate(value));
  return items.empty() ? Value(Undefined{}) : items.back();
}

absl::StatusOr<Value> ReverseFilter(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.IsString()) return runtime.Slice(value, None{}, None{}, int64_t{-1});
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, runtime.Iterate(value));
  std::reverse(items.begin(), items.end());
  return runtime.NewList(std::move(items));
}

absl::StatusOr<Value> JoinFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value* separator = arguments.Find(0, "d");
  const Value* attribute = arguments.Find(1, "attribute");
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, runtime.Iterate(value));
  if (attribute != nullptr && !attribute->IsNone()) {
    for (Value& item : items) {
      BATON_ASSIGN_OR_RETURN(item, FollowPath(runtime, item, *attribute));
    }
  }
  Text between;
  if (separator != nullptr) {
    BATON_ASSIGN_OR_RETURN(between, runtime.ToText(*separator));
  }
  return JoinValues(runtime, between, items);
}

absl::StatusOr<Value> AttributeFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value* name = arguments.Find(0, "name");
  if (name == nullptr || !name->IsString()) return InvalidArgument("attr needs a name");
  if (value.Is<Dict*>() && !value.IsUndefined()) return Value(Undefined{});  // attributes only, never keys
  return runtime.Attribute(value, name->bytes(), nullptr);
}

// What select and map iterate over: anything false counts as empty, so that a None for tools does no harm.
absl::StatusOr<std::vector<Value>> IterateIfTrue(Runtime& runtime, const Value& value) {
  if (!value.Truth()) return std::vector<Value>();
  return runtime.Iterate(value);
}

// `map(attribute=path, default=value)` or `map("filter", arguments...)`.
absl::StatusOr<Value> MapFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateIfTrue(runtime, value));
  const Value* attribute = arguments.Find(SIZE_MAX, "attribute");
  const Value* otherwise = arguments.Find(SIZE_MAX, "default");
  if (attribute != nullptr && arguments.positional.empty()) {
    for (Value& item : items) {
      BATON_ASSIGN_OR_RETURN(item, FollowPath(runtime, item, *attribute));
      if (item.IsUndefined() && otherwise != nullptr) item = *otherwise;
    }
    return runtime.NewList(std::move(items));
  }
  if (arguments.positional.empty() || !arguments.positional[0].IsString()) {
    return InvalidArgument("map needs the name of a filter or an attribute");
  }
  const std::string name = arguments.positional[0].bytes();
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  const Budget::Nesting nesting(runtime.budget());
  BATON_RETURN_IF_ERROR(nesting.Check());
  for (Value& item : items) {
    BATON_ASSIGN_OR_RETURN(item, ApplyFilter(runtime, name, item, rest));
  }
  return runtime.NewList(std::move(items));
}

// select and reject, with or without an attribute as their first argument.
template <bool kWanted, bool kByAttribute>
absl::StatusOr<Value> SelectFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateIfTrue(runtime, value));
  Arguments rest = arguments;
  Value path;
  if (kByAttribute) {
    if (rest.positional.empty()) return InvalidArgument("selectattr and rejectattr need an attribute");
    path = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
  }
  std::optional<std::string> test;
  if (!rest.positional.empty()) {
    if (!rest.positional[0].IsString()) return Runtime::TypeError("the name of a test", rest.positional[0]);
    test = rest.positional[0].bytes();
    rest.positional.erase(rest.positional.begin());
  }
  const Budget::Nesting nesting(runtime.budget());
  BATON_RETURN_IF_ERROR(nesting.Check());
  std::vector<Value> kept;
  for (Value& item : items) {
    Value subject = item;
    if (kByAttribute) {
      BATON_ASSIGN_OR_RETURN(subject, FollowPath(runtime, item, path));
    }
    bool passes = subject.Truth();
    if (test) {
      BATON_ASSIGN_OR_RETURN(passes, ApplyTest(runtime, *test, subject, rest));
    }
    if (passes == kWanted) kept.push_back(std::move(item));
  }
  return runtime.NewList(std::move(kept));
}

}  // namespace

const std::vector<FilterEntry>& SequenceFilters() {
  static const std::vector<FilterEntry> filters = {
      {"attr", AttributeFilter},
      {"dictsort", DictSortFilter},
      {"first", FirstFilter},
      {"items", ItemsFilter},
      {"join", JoinFilter},
      {"last", LastFilter},
      {"list", ListFilter},
      {"map", MapFilter},
      {"max", ExtremeFilter<true>},
      {"min", ExtremeFilter<false>},
      {"reject", SelectFilter<false, false>},
      {"rejectattr", SelectFilter<false, true>},
      {"reverse", ReverseFilter},
      {"select", SelectFilter<true, false>},
      {"selectattr", SelectFilter<true, true>},
      {"sort", SortFilter},
      {"sum", SumFilter},
      {"unique", UniqueFilter},
  };
  return filters;
}

}  // namespace baton::jinja
