#pragma once

// Typed reading of untrusted JSON: every mistake is a Status that names the path.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {

using Json = nlohmann::json;  // sorted keys: lookups in a vocabulary stay logarithmic

inline absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view name) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("%s is not valid JSON (%d bytes)", name, text.size());
  if (!json.is_object()) return InvalidArgument("%s is a JSON %s, not an object", name, json.type_name());
  return json;
}

// The member, or null if `object` lacks it (a JSON null counts as lacking).
inline const Json* FindMember(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

inline absl::Status WrongType(std::string_view path, const char* key, const char* wanted, const Json& value) {
  return InvalidArgument("%s.%s is a JSON %s, not %s", path, key, value.type_name(), wanted);
}

inline absl::StatusOr<std::string> ReadString(const Json& object, const char* key, std::string_view path) {
  const Json* value = FindMember(object, key);
  if (value == nullptr) return InvalidArgument("%s.%s is missing", path, key);
  if (!value->is_string()) return WrongType(path, key, "a string", *value);
  return value->get<std::string>();
}

inline absl::StatusOr<bool> ReadBool(const Json& object, const char* key, bool otherwise, std::string_view path) {
  const Json* value = FindMember(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return WrongType(path, key, "true or false", *value);
  return value->get<bool>();
}

inline absl::StatusOr<int64_t> ReadInteger(const Json& object, const char* key, std::string_view path) {
  const Json* value = FindMember(object, key);
  if (value == nullptr) return InvalidArgument("%s.%s is missing", path, key);
  if (!value->is_number_integer()) return WrongType(path, key, "an integer", *value);
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) {
    return InvalidArgument("%s.%s is %d, too large", path, key, value->get<uint64_t>());
  }
  return value->get<int64_t>();
}

// The member as an array; null if lacking.
inline absl::StatusOr<const Json*> ReadArray(const Json& object, const char* key, std::string_view path) {
  const Json* value = FindMember(object, key);
  if (value != nullptr && !value->is_array()) return WrongType(path, key, "an array", *value);
  return value;
}

}  // namespace baton
