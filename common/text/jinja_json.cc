#include "common/text/jinja_json.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/text/jinja_number.h"

namespace baton::jinja {

absl::StatusOr<Value> FromJson(Runtime& runtime, const nlohmann::ordered_json& json, Origin origin) {
  const Budget::Nesting nesting(runtime.budget());
  BATON_RETURN_IF_ERROR(nesting.Check());
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      return number <= INT64_MAX ? Value(static_cast<int64_t>(number)) : Value(static_cast<double>(number));
    }
    case nlohmann::ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string:
      return runtime.NewString(json.get_ref<const std::string&>(), origin);
    case nlohmann::ordered_json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) {
        BATON_ASSIGN_OR_RETURN(Value value, FromJson(runtime, item, origin));
        items.push_back(std::move(value));
      }
      return runtime.NewList(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      BATON_ASSIGN_OR_RETURN(Dict * dict, runtime.NewDict());
      for (auto entry = json.begin(); entry != json.end(); ++entry) {
        BATON_ASSIGN_OR_RETURN(const Value key, runtime.NewString(entry.key(), origin));
        BATON_ASSIGN_OR_RETURN(Value value, FromJson(runtime, entry.value(), origin));
        BATON_RETURN_IF_ERROR(runtime.Insert(*dict, key, std::move(value)));
      }
      return Value(dict);
    }
    default:
      return Value();
  }
}

namespace {

void AppendEscapedCodePoint(std::string& out, std::string_view bytes, int32_t code_point, bool ensure_ascii) {
  static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
  const size_t simple =
      code_point > 0 && code_point < 0x80 ? kFrom.find(static_cast<char>(code_point)) : std::string_view::npos;
  if (simple != std::string_view::npos) {
    out += '\\';
    out += kTo[simple];
  } else if (code_point >= 0 && (code_point < 0x20 || (ensure_ascii && code_point >= 0x80 && code_point < 0x10000))) {
    out += absl::StrFormat("\\u%04x", code_point);
  } else if (ensure_ascii && code_point >= 0x10000) {
    const int32_t offset = code_point - 0x10000;
    out += absl::StrFormat("\\u%04x\\u%04x", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
  } else {
    out.append(bytes);
  }
}

// The punctuation around a caller's values counts as the caller's; characters of strings keep their origin.
class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  absl::Status Write(const Value& value, int level) {
    const Budget::Nesting nesting(runtime_.budget());
    BATON_RETURN_IF_ERROR(nesting.Check());
    BATON_RETURN_IF_ERROR(runtime_.budget().Step());
    BATON_RETURN_IF_ERROR(runtime_.budget().CheckString(out_.size()));
    if (value.IsString()) return WriteString(value.text());
    if (value.IsNone()) return Plain("null");
    if (value.Is<bool>()) return Plain(value.As<bool>() ? "true" : "false");
    if (value.Is<int64_t>()) return Plain(std::to_string(value.As<int64_t>()));
    if (value.Is<double>()) return Plain(Number(value.As<double>()));
    if (value.Is<List*>()) return WriteList(*value.As<List*>(), level);
    if (value.Is<Dict*>()) return WriteDict(*value.As<Dict*>(), level);
    return Runtime::TypeError("what tojson prints", value);
  }

  Text Take() { return std::move(out_); }

 private:
  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FormatFloat(value);
  }

  absl::Status Plain(std::string_view text) {
    out_.Append(text, Origin::kCaller);
    return absl::OkStatus();
  }

  absl::Status WriteString(const Text& text) {
    out_.Append("\"", Origin::kCaller);
    const std::string_view bytes = text.bytes();
    size_t at = 0;
    for (const Text::Run& run : text.runs()) {
      std::string escaped;
      while (at < run.end) {
        const size_t plain = at;
        while (at < run.end && bytes[at] >= ' ' && bytes[at] < 0x7F && bytes[at] != '"' && bytes[at] != '\\') ++at;
        escaped.append(bytes.substr(plain, at - plain));
        if (at == run.end) break;
        const size_t next = std::min(NextCodePoint(bytes, at), run.end);
        AppendEscapedCodePoint(escaped, bytes.substr(at, next - at), CodePointAt(bytes, at), style_.ensure_ascii);
        at = next;
      }
      out_.Append(escaped, run.origin);
    }
    out_.Append("\"", Origin::kCaller);
    return runtime_.budget().Step(static_cast<int64_t>(bytes.size() / 64));
  }

  absl::Status NewLine(int level) {
    if (!style_.indent) return absl::OkStatus();
    std::string line = "\n";
    for (int i = 0; i < level; ++i) line += *style_.indent;
    return Plain(line);
  }

  absl::Status WriteList(const List& list, int level) {
    if (list.items.empty()) return Plain("[]");
    BATON_RETURN_IF_ERROR(Plain("["));
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) BATON_RETURN_IF_ERROR(Plain(style_.item_separator));
      BATON_RETURN_IF_ERROR(NewLine(level + 1));
      BATON_RETURN_IF_ERROR(Write(list.items[i], level + 1));
    }
    BATON_RETURN_IF_ERROR(NewLine(level));
    return Plain("]");
  }

  absl::Status WriteDict(const Dict& dict, int level) {
    if (dict.items.empty()) return Plain("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.items) entries.push_back(&entry);
    if (style_.sort_keys) {
      BATON_RETURN_IF_ERROR(runtime_.budget().Step(static_cast<int64_t>(entries.size()) * 4));
      for (const auto* entry : entries) {
        if (!entry->first.IsString()) return Runtime::TypeError("a key that is sorted", entry->first);
      }
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* a, const auto* b) { return a->first.bytes() < b->first.bytes(); });
    }
    BATON_RETURN_IF_ERROR(Plain("{"));
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) BATON_RETURN_IF_ERROR(Plain(style_.item_separator));
      BATON_RETURN_IF_ERROR(NewLine(level + 1));
      BATON_RETURN_IF_ERROR(WriteKey(entries[i]->first));
      BATON_RETURN_IF_ERROR(Plain(style_.key_separator));
      BATON_RETURN_IF_ERROR(Write(entries[i]->second, level + 1));
    }
    BATON_RETURN_IF_ERROR(NewLine(level));
    return Plain("}");
  }

  absl::Status WriteKey(const Value& key) {
    if (key.IsString()) return WriteString(key.text());
    if (!key.IsNumber() && !key.IsNone()) return Runtime::TypeError("a key that tojson prints", key);
    BATON_RETURN_IF_ERROR(Plain("\""));
    BATON_RETURN_IF_ERROR(Write(key, 0));
    return Plain("\"");
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  Text out_;
};

}  // namespace

absl::StatusOr<Text> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  BATON_RETURN_IF_ERROR(writer.Write(value, 0));
  return writer.Take();
}

absl::StatusOr<Value> ToJsonFilter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  JsonStyle style;
  if (const Value* ensure_ascii = arguments.Find(0, "ensure_ascii")) style.ensure_ascii = ensure_ascii->Truth();
  if (const Value* indent = arguments.Find(1, "indent"); indent != nullptr && !indent->IsNone()) {
    if (indent->IsInteger()) {
      style.indent.emplace(static_cast<size_t>(std::clamp<int64_t>(indent->integer(), 0, 64)), ' ');
    } else if (indent->IsString()) {
      style.indent = indent->bytes().substr(0, 64);
    } else {
      return Runtime::TypeError("the indent of tojson", *indent);
    }
    style.item_separator = std::string(1, ',');
  }
  if (const Value* separators = arguments.Find(2, "separators"); separators != nullptr && !separators->IsNone()) {
    const List* pair = separators->Is<List*>() ? separators->As<List*>() : nullptr;
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].IsString() || !pair->items[1].IsString()) {
      return InvalidArgument("the separators of tojson are two strings");
    }
    style.item_separator = pair->items[0].bytes();
    style.key_separator = pair->items[1].bytes();
  }
  if (const Value* sort_keys = arguments.Find(3, "sort_keys")) style.sort_keys = sort_keys->Truth();
  BATON_ASSIGN_OR_RETURN(Text text, ToJson(runtime, value, style));
  return runtime.NewString(std::move(text));
}

}  // namespace baton::jinja
