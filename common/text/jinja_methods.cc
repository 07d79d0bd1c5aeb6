#include "common/text/jinja_methods.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/text/jinja_string_methods.h"

namespace baton::jinja {

namespace {

constexpr std::string_view kListMethods[] = {"append", "index", "count", "copy"};
constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values", "copy"};
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};

template <size_t kSize>
bool IsOneOf(const std::string_view (&names)[kSize], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

absl::StatusOr<Value> First(const Arguments& arguments, std::string_view method) {
  if (arguments.positional.empty()) return InvalidArgument("%s needs an argument", std::string(method));
  return arguments.positional[0];
}

absl::StatusOr<Value> CallListMethod(Runtime& runtime, List& list, std::string_view name, const Arguments& arguments) {
  if (name == "copy") return runtime.NewList(list.items);
  BATON_ASSIGN_OR_RETURN(Value item, First(arguments, name));
  if (name == "append") {
    if (list.is_tuple) return InvalidArgument("a tuple has no append");
    BATON_RETURN_IF_ERROR(runtime.budget().ReserveItems(1, list.items.size()));
    list.items.push_back(std::move(item));
    return Value();
  }
  int64_t count = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const bool equal, runtime.Equal(list.items[i], item));
    if (equal && name == "index") return Value(static_cast<int64_t>(i));
    count += equal;
  }
  if (name == "index") return InvalidArgument("the item is not in the list");
  return Value(count);
}

absl::StatusOr<Value> CallDictMethod(Runtime& runtime, const Dict& dict, std::string_view name,
                                     const Arguments& arguments) {
  if (name == "get") {
    BATON_ASSIGN_OR_RETURN(const Value key, First(arguments, name));
    if (const Value* found = dict.Find(key)) return *found;
    const Value* otherwise = arguments.Find(1, "default");
    return otherwise != nullptr ? *otherwise : Value();
  }
  if (name == "copy") {
    BATON_ASSIGN_OR_RETURN(Dict * copy, runtime.NewDict());
    for (const auto& [key, value] : dict.items) BATON_RETURN_IF_ERROR(runtime.Insert(*copy, key, value));
    return Value(copy);
  }
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items) {
    if (name == "items") {
      BATON_ASSIGN_OR_RETURN(Value pair, runtime.NewList({key, value}, true));
      items.push_back(std::move(pair));
    } else {
      items.push_back(name == "keys" ? key : value);
    }
  }
  return runtime.NewList(std::move(items));
}

absl::StatusOr<Value> CallLoopMethod(Runtime& runtime, Loop& loop, std::string_view name, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (name == "cycle") {
    if (given.empty()) return InvalidArgument("no items for cycling given");
    return given[static_cast<size_t>(loop.index0) % given.size()];
  }
  bool same = loop.has_changed_value && loop.changed_value.size() == given.size();
  for (size_t i = 0; same && i < given.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(same, runtime.Equal(loop.changed_value[i], given[i]));
  }
  loop.has_changed_value = true;
  loop.changed_value = given;
  return Value(!same);
}

}  // namespace

bool HasMethod(const Value& receiver, std::string_view name) {
  if (receiver.IsString()) return FindStringMethod(name) != nullptr;
  if (receiver.Is<Dict*>()) return IsOneOf(kDictMethods, name);
  if (receiver.Is<List*>()) return IsOneOf(kListMethods, name);
  if (receiver.Is<Loop*>()) return IsOneOf(kLoopMethods, name);
  return false;
}

absl::StatusOr<Value> CallMethod(Runtime& runtime, const Value& receiver, std::string_view name,
                                 const Arguments& arguments) {
  BATON_RETURN_IF_ERROR(runtime.budget().Step());
  if (receiver.IsString()) {
    BATON_RETURN_IF_ERROR(runtime.budget().Step(static_cast<int64_t>(receiver.bytes().size() / 64)));
    return FindStringMethod(name)(runtime, receiver.text(), arguments);
  }
  if (receiver.Is<Dict*>()) return CallDictMethod(runtime, *receiver.As<Dict*>(), name, arguments);
  if (receiver.Is<List*>()) return CallListMethod(runtime, *receiver.As<List*>(), name, arguments);
  return CallLoopMethod(runtime, *receiver.As<Loop*>(), name, arguments);
}

}  // namespace baton::jinja
