#include "common/text/jinja_value.h"

namespace baton::jinja {

bool Value::Truth() const {
  struct Visitor {
    bool operator()(const Undefined&) const { return false; }
    bool operator()(const None&) const { return false; }
    bool operator()(bool value) const { return value; }
    bool operator()(int64_t value) const { return value != 0; }
    bool operator()(double value) const { return value != 0; }
    bool operator()(const String& value) const { return !value->text.empty(); }
    bool operator()(const List* value) const { return !value->items.empty(); }
    bool operator()(const Dict* value) const { return !value->items.empty(); }
    bool operator()(const Namespace*) const { return true; }
    bool operator()(const Loop*) const { return true; }
    bool operator()(const Callable*) const { return true; }
  };
  return std::visit(Visitor{}, data_);
}

const char* Value::TypeName() const {
  if (const auto* list = If<List*>(); list != nullptr && (*list)->is_tuple) return "tuple";
  static constexpr const char* kNames[] = {"Undefined", "NoneType", "bool",      "int",         "float",   "str",
                                           "list",      "dict",     "Namespace", "LoopContext", "function"};
  return kNames[data_.index()];
}

bool ScalarEqual(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsInteger() && b.IsInteger()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.data().index() != b.data().index()) return false;
  struct Visitor {
    const Value& other;
    bool operator()(const Undefined&) const { return true; }
    bool operator()(const None&) const { return true; }
    bool operator()(bool) const { return false; }
    bool operator()(int64_t) const { return false; }
    bool operator()(double) const { return false; }
    bool operator()(const String& value) const { return value->text.bytes() == other.bytes(); }
    bool operator()(List* value) const { return value == other.As<List*>(); }
    bool operator()(Dict* value) const { return value == other.As<Dict*>(); }
    bool operator()(Namespace* value) const { return value == other.As<Namespace*>(); }
    bool operator()(Loop* value) const { return value == other.As<Loop*>(); }
    bool operator()(Callable* value) const { return value == other.As<Callable*>(); }
  };
  return std::visit(Visitor{b}, a.data());
}

namespace {
constexpr size_t kIndexFrom = 16;  // below, a scan is faster than hashing
}

const Value* Dict::Find(std::string_view key) const {
  if (items.size() >= kIndexFrom) {
    const auto found = string_index_.find(std::string(key));
    return found == string_index_.end() ? nullptr : &items[found->second].second;
  }
  for (const auto& [name, value] : items) {
    if (name.IsString() && name.bytes() == key) return &value;
  }
  return nullptr;
}

std::ptrdiff_t Dict::IndexOf(const Value& key) const {
  if (key.IsString() && items.size() >= kIndexFrom) {
    const auto found = string_index_.find(key.bytes());
    return found == string_index_.end() ? -1 : static_cast<std::ptrdiff_t>(found->second);
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (ScalarEqual(items[i].first, key)) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

const Value* Dict::Find(const Value& key) const {
  const std::ptrdiff_t index = IndexOf(key);
  return index < 0 ? nullptr : &items[static_cast<size_t>(index)].second;
}

void Dict::Set(const Value& key, Value value) {
  if (const std::ptrdiff_t index = IndexOf(key); index >= 0) {
    items[static_cast<size_t>(index)].second = std::move(value);
    return;
  }
  items.emplace_back(key, std::move(value));
  if (items.size() < kIndexFrom) return;
  const size_t first = items.size() == kIndexFrom ? 0 : items.size() - 1;
  for (size_t i = first; i < items.size(); ++i) {
    if (items[i].first.IsString()) string_index_.emplace(items[i].first.bytes(), i);
  }
}

}  // namespace baton::jinja
