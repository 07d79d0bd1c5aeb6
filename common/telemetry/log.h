#pragma once

// JSON logs, one object a line on stderr: time, level, program, message, then the fields. Thread-safe.
//   log.Info("lease expired", {{"request_id", id}, {"lease", lease.value}});

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace baton {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning" or "error".
absl::StatusOr<LogLevel> ParseLogLevel(const std::string& text);

class LogField {
 public:
  LogField(std::string_view key, std::string_view value) : key(key), value(std::string(value)) {}
  LogField(std::string_view key, const std::string& value) : key(key), value(value) {}
  LogField(std::string_view key, const char* value) : key(key), value(std::string(value)) {}
  LogField(std::string_view key, bool value) : key(key), value(value) {}
  LogField(std::string_view key, double value) : key(key), value(value) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) LogField(std::string_view key, T value)
      : key(key), value(static_cast<uint64_t>(value)) {}
  template <std::signed_integral T>
  LogField(std::string_view key, T value) : key(key), value(static_cast<int64_t>(value)) {}

  std::string_view key;
  std::variant<std::string, bool, double, int64_t, uint64_t> value;
};

class Logger {
 public:
  // `program` stands in every line. Lines below `level` are dropped before they are formatted.
  Logger(std::string program, LogLevel level);
  ~Logger();

  using Fields = std::initializer_list<LogField>;
  void Debug(std::string_view message, Fields fields = {}) const { Write(LogLevel::kDebug, message, fields); }
  void Info(std::string_view message, Fields fields = {}) const { Write(LogLevel::kInfo, message, fields); }
  void Warning(std::string_view message, Fields fields = {}) const { Write(LogLevel::kWarning, message, fields); }
  void Error(std::string_view message, Fields fields = {}) const { Write(LogLevel::kError, message, fields); }
  void Write(LogLevel level, std::string_view message, Fields fields) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton
