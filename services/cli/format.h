#pragma once

// Numbers and foreign text as people read them in a terminal.

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::cli {

// "494,032,768"
std::string FormatCount(uint64_t value);
// "512 B", "12.0 KiB", "10.63 GiB"
std::string FormatBytes(double bytes);
// "850 us", "41.2 ms", "3.25 s", "2 min 05 s"
std::string FormatSeconds(double seconds);
// `digits` after the point.
std::string FormatNumber(double value, int digits);

// Text from a model or a server for a terminal: control characters other than newline and tab (C0, DEL, C1) become '?',
// so that no answer can move the cursor or set a title. UTF-8 stays as it is.
std::string TerminalSafe(std::string_view text);
// The same on one line: newlines and tabs become spaces.
std::string OneLine(std::string_view text);

// Code points of UTF-8 text; what a column's width counts.
size_t TextWidth(std::string_view text);
// The first `width` code points.
std::string_view CutToWidth(std::string_view text, size_t width);

}  // namespace baton::cli
