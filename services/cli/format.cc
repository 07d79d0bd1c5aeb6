#include "services/cli/format.h"

#include <array>
#include <cmath>

#include "absl/strings/str_format.h"

namespace baton::cli {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

std::string Sanitized(std::string_view text, bool one_line) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (byte == '\n' || byte == '\t') {
      result += one_line ? ' ' : text[i];
    } else if (c1) {
      result += '?';
      ++i;
    } else {
      result += byte < 0x20 || byte == 0x7f ? '?' : text[i];
    }
  }
  return result;
}

}  // namespace

std::string FormatCount(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t left = digits.size(); left > 3; left -= 3) digits.insert(left - 3, 1, ',');
  return digits;
}

std::string FormatBytes(double bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : unit < 3 ? 1 : 2, bytes, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 0.001) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 60) return absl::StrFormat("%.2f s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
}

std::string FormatNumber(double value, int digits) { return absl::StrFormat("%.*f", digits, value); }

std::string TerminalSafe(std::string_view text) { return Sanitized(text, false); }
std::string OneLine(std::string_view text) { return Sanitized(text, true); }

size_t TextWidth(std::string_view text) {
  size_t width = 0;
  for (const char c : text) width += IsContinuation(c) ? 0 : 1;
  return width;
}

std::string_view CutToWidth(std::string_view text, size_t width) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsContinuation(text[i])) continue;
    if (width == 0) return text.substr(0, i);
    --width;
  }
  return text;
}

}  // namespace baton::cli
