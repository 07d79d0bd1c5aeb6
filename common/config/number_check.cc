#include "common/config/number_check.h"

#include <charconv>
#include <sstream>
#include <system_error>

namespace baton {
namespace {

template <typename T>
bool Parse(const std::string& text, T* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

bool IsWholeNumber(const std::string& text, int64_t low, uint64_t high) {
  const size_t first_digit = text.starts_with('-') ? 1 : 0;
  if (text.size() > first_digit + 1 && text[first_digit] == '0') return false;  // CLI11 would read it as octal or hex
  int64_t negative = 0;
  if (first_digit == 1) return low < 0 && Parse(text, &negative) && negative >= low;
  uint64_t value = 0;
  return Parse(text, &value) && value <= high && (low < 0 || value >= static_cast<uint64_t>(low));
}

}  // namespace

CLI::Validator WholeNumberCheck(int64_t low, uint64_t high) {
  const std::string low_text = std::to_string(low), high_text = std::to_string(high);
  return CLI::Validator(
      [=](std::string& text) {
        if (IsWholeNumber(text, low, high)) return std::string();
        return "'" + text + "' is no whole number from " + low_text + " to " + high_text;
      },
      "in [" + low_text + " - " + high_text + "]");
}

CLI::Validator RealNumberCheck(double low, double high) {
  std::ostringstream low_text, high_text;
  low_text << low;
  high_text << high;
  return CLI::Validator(
      [=, low_text = low_text.str(), high_text = high_text.str()](std::string& text) {
        double value = 0;
        if (Parse(text, &value) && value >= low && value <= high) return std::string();
        return "'" + text + "' is no number from " + low_text + " to " + high_text;
      },
      "in [" + low_text.str() + " - " + high_text.str() + "]");
}

}  // namespace baton
