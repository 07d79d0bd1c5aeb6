#include "common/text/jinja_runtime.h"

#include <algorithm>
#include <memory>

#include "common/text/jinja_ast.h"
#include "common/text/jinja_methods.h"
#include "common/text/jinja_number.h"
#include "utf8proc.h"

namespace baton::jinja {

const Value* Arguments::Find(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : keyword) {
    if (key == name) return &value;
  }
  return nullptr;
}

absl::StatusOr<Value> Runtime::NewString(Text text) {
  BATON_RETURN_IF_ERROR(budget_.ReserveString(text.size(), text.memory_bytes()));
  return Value(String(std::make_shared<StringBody>(std::move(text), budget_.live_string_bytes())));
}

absl::StatusOr<Value> Runtime::NewList(std::vector<Value> items, bool is_tuple) {
  BATON_RETURN_IF_ERROR(budget_.ReserveItems(items.size()));
  lists_.push_back(List{std::move(items), is_tuple});
  return Value(&lists_.back());
}

absl::StatusOr<Value> Runtime::NewListOfTexts(std::vector<Text> texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (Text& text : texts) {
    BATON_ASSIGN_OR_RETURN(Value item, NewString(std::move(text)));
    items.push_back(std::move(item));
  }
  return NewList(std::move(items));
}

absl::StatusOr<Dict*> Runtime::NewDict() {
  BATON_RETURN_IF_ERROR(budget_.ReserveItems(0));
  dicts_.emplace_back();
  return &dicts_.back();
}

absl::Status Runtime::Insert(Dict& dict, const Value& key, Value value) {
  if (key.Is<List*>() || key.Is<Dict*>()) return TypeError("a key of a dict", key);
  BATON_RETURN_IF_ERROR(budget_.ReserveItems(2, dict.items.size()));
  dict.Set(key, std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<Namespace*> Runtime::NewNamespace() {
  BATON_RETURN_IF_ERROR(budget_.ReserveItems(0));
  namespaces_.emplace_back();
  return &namespaces_.back();
}

absl::StatusOr<Loop*> Runtime::NewLoop(std::vector<Value> items) {
  BATON_RETURN_IF_ERROR(budget_.ReserveItems(items.size()));
  loops_.emplace_back();
  loops_.back().items = std::move(items);
  return &loops_.back();
}

absl::StatusOr<Callable*> Runtime::NewCallable(Callable callable) {
  BATON_RETURN_IF_ERROR(budget_.ReserveItems(1));
  callables_.push_back(std::move(callable));
  return &callables_.back();
}

absl::Status Runtime::UndefinedError(const Value& value) {
  const Undefined* undefined = value.If<Undefined>();
  const Expression* source = undefined == nullptr ? nullptr : undefined->source;
  if (source == nullptr) return InvalidArgument("an undefined value is used");
  if (source->kind == Expression::Kind::kName) return InvalidArgument("'%s' is undefined", source->name);
  if (source->kind == Expression::Kind::kAttribute) return InvalidArgument("there is no attribute '%s'", source->name);
  if (source->kind == Expression::Kind::kItem) {
    const Expression* key = source->operands[1].get();
    if (key->kind == Expression::Kind::kConstant && key->constant.IsString()) {
      return InvalidArgument("there is no item '%s'", key->constant.bytes());
    }
    return InvalidArgument("there is no such item");
  }
  return InvalidArgument("an undefined value is used");
}

absl::Status Runtime::TypeError(std::string_view what, const Value& value) {
  if (value.IsUndefined()) return UndefinedError(value);
  return InvalidArgument("%s cannot be a value of type %s", std::string(what), value.TypeName());
}

absl::StatusOr<Text> Runtime::ToText(const Value& value) {
  if (value.IsString()) return value.text();
  Text out;
  if (!value.IsUndefined()) BATON_RETURN_IF_ERROR(AppendRepr(out, value));
  return out;
}

namespace {

bool IsPrintable(int32_t code_point) {
  if (code_point == ' ') return true;
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void AppendEscaped(std::string& out, std::string_view bytes, char quote) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t plain = at;
    while (at < bytes.size() && bytes[at] >= ' ' && bytes[at] < 0x7F && bytes[at] != quote && bytes[at] != '\\') ++at;
    out.append(bytes.substr(plain, at - plain));
    if (at == bytes.size()) break;
    const int32_t code_point = CodePointAt(bytes, at);
    const size_t next = NextCodePoint(bytes, at);
    if (code_point == quote || code_point == '\\') {
      out += '\\';
      out += static_cast<char>(code_point);
    } else if (code_point == '\n' || code_point == '\r' || code_point == '\t') {
      out += code_point == '\n' ? "\\n" : code_point == '\r' ? "\\r" : "\\t";
    } else if (code_point >= 0 && !IsPrintable(code_point)) {
      out += code_point < 0x100     ? absl::StrFormat("\\x%02x", code_point)
             : code_point < 0x10000 ? absl::StrFormat("\\u%04x", code_point)
                                    : absl::StrFormat("\\U%08x", code_point);
    } else {
      out.append(bytes.substr(at, next - at));
    }
    at = next;
  }
}

}  // namespace

absl::Status Runtime::AppendString(Text& out, const Value& value) {
  const std::string& bytes = value.bytes();
  const bool has_single = bytes.find('\'') != std::string::npos;
  const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
  out.Append(std::string_view(&quote, 1), Origin::kCaller);
  size_t begin = 0;
  for (const Text::Run& run : value.text().runs()) {
    std::string escaped;
    AppendEscaped(escaped, std::string_view(bytes).substr(begin, run.end - begin), quote);
    out.Append(escaped, run.origin);
    begin = run.end;
  }
  out.Append(std::string_view(&quote, 1), Origin::kCaller);
  return budget_.ReserveString(out.size(), 0);
}

// The brackets around a caller's values count as the caller's.
absl::Status Runtime::AppendRepr(Text& out, const Value& value) {
  const Budget::Nesting nesting(budget_);
  BATON_RETURN_IF_ERROR(nesting.Check());
  BATON_RETURN_IF_ERROR(budget_.Step());
  BATON_RETURN_IF_ERROR(budget_.CheckString(out.size()));
  auto plain = [&](std::string_view text) {
    out.Append(text, Origin::kTemplate);
    return absl::OkStatus();
  };
  if (value.IsString()) return AppendString(out, value);
  if (value.IsUndefined()) return plain("Undefined");
  if (value.IsNone()) return plain("None");
  if (value.Is<bool>()) return plain(value.As<bool>() ? "True" : "False");
  if (value.Is<int64_t>()) return plain(std::to_string(value.As<int64_t>()));
  if (value.Is<double>()) return plain(FormatFloat(value.As<double>()));
  if (const auto* list = value.If<List*>()) {
    const bool is_tuple = (*list)->is_tuple;
    out.Append(is_tuple ? "(" : "[", Origin::kCaller);
    bool first = true;
    for (const Value& item : (*list)->items) {
      if (!first) out.Append(", ", Origin::kCaller);
      first = false;
      BATON_RETURN_IF_ERROR(AppendRepr(out, item));
    }
    out.Append(!is_tuple ? "]" : (*list)->items.size() == 1 ? ",)" : ")", Origin::kCaller);
    return absl::OkStatus();
  }
  const Dict* dict = value.Is<Dict*>() ? value.As<Dict*>() : nullptr;
  if (value.Is<Namespace*>()) dict = &value.As<Namespace*>()->attributes;
  if (dict != nullptr) {
    if (value.Is<Namespace*>()) out.Append("<Namespace ", Origin::kTemplate);
    out.Append("{", Origin::kCaller);
    bool first = true;
    for (const auto& [key, item] : dict->items) {
      if (!first) out.Append(", ", Origin::kCaller);
      first = false;
      BATON_RETURN_IF_ERROR(AppendRepr(out, key));
      out.Append(": ", Origin::kCaller);
      BATON_RETURN_IF_ERROR(AppendRepr(out, item));
    }
    out.Append("}", Origin::kCaller);
    if (value.Is<Namespace*>()) out.Append(">", Origin::kTemplate);
    return absl::OkStatus();
  }
  if (const auto* loop = value.If<Loop*>()) {
    return plain(absl::StrFormat("<LoopContext %d/%d>", (*loop)->index0 + 1, (*loop)->items.size()));
  }
  return plain("<function " + value.As<Callable*>()->name + ">");
}

absl::StatusOr<bool> Runtime::Equal(const Value& a, const Value& b) {
  const Budget::Nesting nesting(budget_);
  BATON_RETURN_IF_ERROR(nesting.Check());
  BATON_RETURN_IF_ERROR(budget_.Step(1 + (a.IsString() ? static_cast<int64_t>(a.bytes().size() / 64) : 0)));
  if (a.Is<List*>() && b.Is<List*>()) {
    const List& left = *a.As<List*>();
    const List& right = *b.As<List*>();
    if (left.is_tuple != right.is_tuple || left.items.size() != right.items.size()) return false;
    for (size_t i = 0; i < left.items.size(); ++i) {
      BATON_ASSIGN_OR_RETURN(const bool equal, Equal(left.items[i], right.items[i]));
      if (!equal) return false;
    }
    return true;
  }
  if (a.Is<Dict*>() && b.Is<Dict*>()) {
    const Dict& left = *a.As<Dict*>();
    const Dict& right = *b.As<Dict*>();
    if (left.items.size() != right.items.size()) return false;
    for (const auto& [key, value] : left.items) {
      const Value* other = right.Find(key);
      if (other == nullptr) return false;
      BATON_ASSIGN_OR_RETURN(const bool equal, Equal(value, *other));
      if (!equal) return false;
    }
    return true;
  }
  return ScalarEqual(a, b);
}

absl::StatusOr<int> Runtime::Order(const Value& a, const Value& b) {
  const Budget::Nesting nesting(budget_);
  BATON_RETURN_IF_ERROR(nesting.Check());
  BATON_RETURN_IF_ERROR(budget_.Step());
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsInteger() && b.IsInteger()) return (a.integer() > b.integer()) - (a.integer() < b.integer());
    return (a.number() > b.number()) - (a.number() < b.number());
  }
  if (a.IsString() && b.IsString()) return a.bytes().compare(b.bytes());  // UTF-8 keeps the order of code points
  if (a.Is<List*>() && b.Is<List*>()) {
    const List& left = *a.As<List*>();
    const List& right = *b.As<List*>();
    for (size_t i = 0; i < std::min(left.items.size(), right.items.size()); ++i) {
      BATON_ASSIGN_OR_RETURN(const bool equal, Equal(left.items[i], right.items[i]));
      if (!equal) return Order(left.items[i], right.items[i]);
    }
    return (left.items.size() > right.items.size()) - (left.items.size() < right.items.size());
  }
  if (a.IsUndefined()) return UndefinedError(a);
  if (b.IsUndefined()) return UndefinedError(b);
  return InvalidArgument("values of types %s and %s cannot be ordered", a.TypeName(), b.TypeName());
}

absl::StatusOr<bool> Runtime::Contains(const Value& container, const Value& item) {
  if (container.IsString()) {
    if (!item.IsString()) return TypeError("what is looked for in a string", item);
    BATON_RETURN_IF_ERROR(budget_.Step(1 + static_cast<int64_t>(container.bytes().size() / 64)));
    return Find(container.bytes(), item.bytes()) != std::string_view::npos;
  }
  if (const auto* dict = container.If<Dict*>()) return (*dict)->Find(item) != nullptr;
  if (const auto* list = container.If<List*>()) {
    for (const Value& candidate : (*list)->items) {
      BATON_ASSIGN_OR_RETURN(const bool equal, Equal(candidate, item));
      if (equal) return true;
    }
    return false;
  }
  if (container.IsUndefined()) return false;
  return TypeError("the right side of 'in'", container);
}

absl::StatusOr<int64_t> Runtime::Length(const Value& value) {
  if (value.IsString()) {
    BATON_RETURN_IF_ERROR(budget_.Step(static_cast<int64_t>(value.bytes().size() / 64)));
    return static_cast<int64_t>(CountCodePoints(value.bytes()));
  }
  if (const auto* list = value.If<List*>()) return static_cast<int64_t>((*list)->items.size());
  if (const auto* dict = value.If<Dict*>()) return static_cast<int64_t>((*dict)->items.size());
  if (const auto* loop = value.If<Loop*>()) return static_cast<int64_t>((*loop)->items.size());
  if (value.IsUndefined()) return 0;
  return TypeError("what has a length", value);
}

absl::StatusOr<std::vector<Value>> Runtime::Iterate(const Value& value) {
  std::vector<Value> items;
  if (const auto* list = value.If<List*>()) {
    BATON_RETURN_IF_ERROR(budget_.Step(static_cast<int64_t>((*list)->items.size())));
    return (*list)->items;
  }
  if (const auto* dict = value.If<Dict*>()) {
    BATON_RETURN_IF_ERROR(budget_.Step(static_cast<int64_t>((*dict)->items.size())));
    for (const auto& [key, item] : (*dict)->items) items.push_back(key);
    return items;
  }
  if (value.IsString()) {
    BATON_RETURN_IF_ERROR(budget_.ReserveItems(CountCodePoints(value.bytes())));
    for (size_t at = 0; at < value.bytes().size();) {
      const size_t next = NextCodePoint(value.bytes(), at);
      BATON_ASSIGN_OR_RETURN(Value item, NewString(value.text().Slice(at, next)));
      items.push_back(std::move(item));
      at = next;
    }
    return items;
  }
  if (value.IsUndefined()) return items;
  return TypeError("what is iterated over", value);
}

}  // namespace baton::jinja
