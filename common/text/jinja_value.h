#pragma once

// What a template expression can evaluate to. Strings are shared and immutable; everything that can hold other values
// lives in the Runtime of one render and is freed with it at once, so neither cycles nor deep nesting need care.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/text/jinja_text.h"

namespace baton::jinja {

struct Expression;
struct Statement;
class Scope;

// A string and the account its bytes are charged to while it lives (null for the template's own constants).
struct StringBody {
  StringBody(Text text, int64_t* live_bytes) : text(std::move(text)), live_bytes(live_bytes) {
    if (live_bytes != nullptr) *live_bytes += static_cast<int64_t>(this->text.memory_bytes());
  }
  ~StringBody() {
    if (live_bytes != nullptr) *live_bytes -= static_cast<int64_t>(text.memory_bytes());
  }
  StringBody(const StringBody&) = delete;
  StringBody& operator=(const StringBody&) = delete;

  const Text text;
  int64_t* const live_bytes;
};
using String = std::shared_ptr<const StringBody>;

// Knows the expression that found nothing, to name it when it is used where a value is needed.
struct Undefined {
  const Expression* source = nullptr;
};
struct None {};

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

template <typename T, typename Variant>
inline constexpr bool kIsAlternative = false;
template <typename T, typename... Types>
inline constexpr bool kIsAlternative<T, std::variant<Types...>> = (std::is_same_v<T, Types> || ...);

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, String, List*, Dict*, Namespace*, Loop*, Callable*>;

  Value() : data_(None{}) {}
  // From exactly one of its alternatives: no number becomes a bool on the way.
  template <typename T>
  requires kIsAlternative<T, Data> Value(T value)
      : data_(std::move(value)) {}  // NOLINT: implicit, as values are made everywhere

  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  const T& As() const {
    return std::get<T>(data_);
  }
  // Null unless the value is a T.
  template <typename T>
  const T* If() const {
    return std::get_if<T>(&data_);
  }

  bool IsUndefined() const { return Is<Undefined>(); }
  bool IsNone() const { return Is<None>(); }
  bool IsString() const { return Is<String>(); }
  bool IsNumber() const { return Is<bool>() || Is<int64_t>() || Is<double>(); }
  bool IsInteger() const { return Is<bool>() || Is<int64_t>(); }  // Python's bool is an int

  const Text& text() const { return As<String>()->text; }
  const std::string& bytes() const { return As<String>()->text.bytes(); }
  int64_t integer() const { return Is<bool>() ? As<bool>() : As<int64_t>(); }
  double number() const { return Is<double>() ? As<double>() : static_cast<double>(integer()); }

  bool Truth() const;
  const char* TypeName() const;  // as Python calls it
  const Data& data() const { return data_; }

 private:
  Data data_;
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
};

// Insertion-ordered; keys are any scalar.
struct Dict {
  std::vector<std::pair<Value, Value>> items;

  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key) const;
  void Set(const Value& key, Value value);

 private:
  std::ptrdiff_t IndexOf(const Value& key) const;
  absl::flat_hash_map<std::string, size_t> string_index_;  // into items; kept once there are many
};

struct Namespace {
  Dict attributes;
};

// The variable `loop` of one for statement.
struct Loop {
  std::vector<Value> items;
  int64_t index0 = 0;
  int64_t depth0 = 0;
  bool has_changed_value = false;
  std::vector<Value> changed_value;
};

struct Callable {
  enum class Kind { kFunction, kMethod, kMacro };
  Kind kind;
  std::string name;
  Value receiver;                    // kMethod
  const Statement* macro = nullptr;  // kMacro
  Scope* closure = nullptr;          // kMacro
};

// Equality of scalars as Python sees it: 1 == 1.0 == True; containers are compared by identity.
bool ScalarEqual(const Value& a, const Value& b);

}  // namespace baton::jinja
