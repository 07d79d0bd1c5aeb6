#include "common/model/json_fields.h"

#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/weights/tensor.h"

namespace baton::model {

const nlohmann::json* JsonFields::Find(std::string_view key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

absl::Status JsonFields::Wrong(std::string_view key, std::string_view expected) const {
  const auto* value = Find(key);
  const std::string text =
      value ? value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) : std::string("missing");
  return InvalidArgument("%s: %s is %s, not %s", where_, key, weights::Quoted(text), expected);
}

absl::StatusOr<std::optional<int64_t>> JsonFields::Integer(std::string_view key, int64_t least, int64_t most) const {
  const auto* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::string range = absl::StrFormat("an integer from %d to %d", least, most);
  if (!value->is_number_integer()) return Wrong(key, range);
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(most)) return Wrong(key, range);
  const int64_t number = value->get<int64_t>();
  if (number < least || number > most) return Wrong(key, range);
  return number;
}

absl::StatusOr<std::optional<double>> JsonFields::Number(std::string_view key) const {
  const auto* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) return Wrong(key, "a finite number");
  return value->get<double>();
}

absl::StatusOr<std::optional<bool>> JsonFields::Bool(std::string_view key) const {
  const auto* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return Wrong(key, "a boolean");
  return value->get<bool>();
}

absl::StatusOr<std::optional<std::string>> JsonFields::String(std::string_view key) const {
  const auto* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return Wrong(key, "a string");
  return value->get<std::string>();
}

}  // namespace baton::model
