#include "common/text/jinja_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace baton::jinja {

namespace {

std::string_view TrimAscii(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\v\f";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string WithoutUnderscores(std::string_view text) {
  std::string digits(TrimAscii(text));
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.erase(0, 1);
  return digits;
}

}  // namespace

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(scientific.ptr - buffer));
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(text);  // two digits of exponent at least, as in Python
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string result(buffer, fixed.ptr);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

std::optional<int64_t> ParseInteger(std::string_view text, int base) {
  const std::string digits = WithoutUnderscores(text);
  int64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseFloat(std::string_view text) {
  const std::string digits = WithoutUnderscores(text);
  double value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

double RoundHalfEven(double value, int digits) {
  if (!std::isfinite(value)) return value;
  // Python rounds the exact decimal value, which printf does too.
  if (digits >= 0) return std::strtod(absl::StrFormat("%.*f", std::min(digits, 300), value).c_str(), nullptr);
  const double scale = std::pow(10.0, -digits);
  return std::nearbyint(value / scale) * scale;
}

}  // namespace baton::jinja
