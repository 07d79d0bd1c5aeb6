#pragma once

// Typed access to one JSON object of a config file. null counts as absent; errors name the file and the key.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton::model {

class JsonFields {
 public:
  // `object` must outlive this. `where`: "…/config.json" or "…/config.json: rope_scaling".
  JsonFields(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  // Null when absent.
  const nlohmann::json* Find(std::string_view key) const;
  // Written as null, as opposed to left out.
  bool IsNull(std::string_view key) const { return object_.contains(key) && Find(key) == nullptr; }

  absl::StatusOr<std::optional<int64_t>> Integer(std::string_view key, int64_t least, int64_t most) const;
  absl::StatusOr<std::optional<double>> Number(std::string_view key) const;  // finite
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string>> String(std::string_view key) const;
  absl::Status Wrong(std::string_view key, std::string_view expected) const;

 private:
  const nlohmann::json& object_;
  const std::string where_;
};

}  // namespace baton::model
