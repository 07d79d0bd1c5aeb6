#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/weights/gguf.h"

namespace baton::weights {

template <typename T>
absl::StatusOr<const T*> GgufMetadata::Find(std::string_view key, std::string_view kind) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) return InvalidArgument("metadata key %s is not %s", Quoted(key), kind);
  return value;
}

absl::StatusOr<std::optional<uint32_t>> GgufMetadata::U32(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  uint64_t value = std::numeric_limits<uint64_t>::max();
  if (const auto* number = std::get_if<uint64_t>(&found->second)) value = *number;
  if (const auto* number = std::get_if<int64_t>(&found->second)) value = static_cast<uint64_t>(*number);
  if (value > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("metadata key %s is not an integer from 0 to 4294967295", Quoted(key));
  }
  return static_cast<uint32_t>(value);
}

absl::StatusOr<std::optional<double>> GgufMetadata::Number(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  double value = std::numeric_limits<double>::quiet_NaN();
  if (const auto* number = std::get_if<double>(&found->second)) value = *number;
  if (const auto* number = std::get_if<uint64_t>(&found->second)) value = static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&found->second)) value = static_cast<double>(*number);
  if (!std::isfinite(value)) return InvalidArgument("metadata key %s is not a finite number", Quoted(key));
  return value;
}

absl::StatusOr<std::optional<bool>> GgufMetadata::Bool(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const bool* value, Find<bool>(key, "a boolean"));
  return value ? std::optional<bool>(*value) : std::nullopt;
}

absl::StatusOr<std::optional<std::string>> GgufMetadata::String(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const std::string* value, Find<std::string>(key, "a string"));
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

absl::StatusOr<const std::vector<std::string>*> GgufMetadata::Strings(std::string_view key) const {
  return Find<std::vector<std::string>>(key, "a list of strings");
}
absl::StatusOr<const std::vector<int32_t>*> GgufMetadata::I32s(std::string_view key) const {
  return Find<std::vector<int32_t>>(key, "a list of 32-bit integers");
}
absl::StatusOr<const std::vector<float>*> GgufMetadata::F32s(std::string_view key) const {
  return Find<std::vector<float>>(key, "a list of f32 numbers");
}

}  // namespace baton::weights
