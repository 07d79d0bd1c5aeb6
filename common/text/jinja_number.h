#pragma once

// Numbers as Python prints and parses them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::jinja {

std::string FormatFloat(double value);  // repr(float): the shortest text that reads back the same
std::optional<int64_t> ParseInteger(std::string_view text, int base = 10);  // int(str)
std::optional<double> ParseFloat(std::string_view text);                    // float(str)
double RoundHalfEven(double value, int digits);                             // round(value, digits)

}  // namespace baton::jinja
