#pragma once

// What one render works with: the memory its values live in, its budget, and what Python does with values of any type.
// Not thread safe; one per render.

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja_budget.h"
#include "common/text/jinja_value.h"

namespace baton::jinja {

// Arguments of a call, evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;

  // By position or name; null if not given.
  const Value* Find(size_t index, std::string_view name) const;
};

class Runtime {
 public:
  explicit Runtime(const RenderLimits& limits) : budget_(limits) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget& budget() { return budget_; }

  absl::StatusOr<Value> NewString(Text text);
  absl::StatusOr<Value> NewString(std::string_view bytes, Origin origin) {
    return NewString(Text(std::string(bytes), origin));
  }
  absl::StatusOr<Value> NewList(std::vector<Value> items, bool is_tuple = false);
  absl::StatusOr<Value> NewListOfTexts(std::vector<Text> texts);
  absl::StatusOr<Dict*> NewDict();
  absl::Status Insert(Dict& dict, const Value& key, Value value);
  absl::StatusOr<Namespace*> NewNamespace();
  absl::StatusOr<Loop*> NewLoop(std::vector<Value> items);
  absl::StatusOr<Callable*> NewCallable(Callable callable);

  absl::StatusOr<Text> ToText(const Value& value);             // str(value)
  absl::Status AppendRepr(Text& out, const Value& value);      // repr(value)
  absl::StatusOr<bool> Equal(const Value& a, const Value& b);  // a == b
  absl::StatusOr<int> Order(const Value& a, const Value& b);   // negative, zero, positive; or a type error
  absl::StatusOr<bool> Contains(const Value& container, const Value& item);  // item in container
  absl::StatusOr<int64_t> Length(const Value& value);
  absl::StatusOr<std::vector<Value>> Iterate(const Value& value);
  absl::StatusOr<Value> Slice(const Value& value, const Value& begin, const Value& end, const Value& step);

  // value.name and value[key]; `source` is what an Undefined result will name.
  absl::StatusOr<Value> Attribute(const Value& value, std::string_view name, const Expression* source);
  absl::StatusOr<Value> Item(const Value& value, const Value& key, const Expression* source);

  // For a use of an undefined value that needs one.
  static absl::Status UndefinedError(const Value& value);
  static absl::Status TypeError(std::string_view what, const Value& value);

 private:
  absl::Status AppendString(Text& out, const Value& value);

  Budget budget_;  // before the values, which give their bytes back to it
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Loop> loops_;
  std::deque<Callable> callables_;
};

}  // namespace baton::jinja
