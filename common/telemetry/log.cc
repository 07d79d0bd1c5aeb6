#include "common/telemetry/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(const std::string& text) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<LogLevel>(i);
  }
  return InvalidArgument("log level '%s' is none of debug, info, warning, error", text);
}

struct Logger::Impl {
  std::string program;
  LogLevel level;
  std::shared_ptr<spdlog::sinks::stderr_sink_mt> sink;
  spdlog::logger logger;
};

Logger::Logger(std::string program, LogLevel level) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  impl_ = std::unique_ptr<Impl>(new Impl{std::move(program), level, sink, spdlog::logger("baton", sink)});
  impl_->logger.set_pattern("%v");
  impl_->logger.set_level(spdlog::level::trace);
  impl_->logger.flush_on(spdlog::level::trace);
}

Logger::~Logger() = default;

void Logger::Write(LogLevel level, std::string_view message, Fields fields) const {
  if (level < impl_->level) return;
  nlohmann::ordered_json line;
  line["time"] = WallTimeSeconds();
  line["level"] = kNames[static_cast<size_t>(level)];
  line["program"] = impl_->program;
  line["message"] = message;
  for (const LogField& field : fields) {
    std::visit([&](const auto& value) { line[std::string(field.key)] = value; }, field.value);
  }
  // Text that is not UTF-8 shows as U+FFFD rather than losing the line.
  impl_->logger.info("{}", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace baton
