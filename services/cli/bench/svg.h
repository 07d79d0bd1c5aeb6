#pragma once

// A report's pictures as one SVG document, one below the other: readable on white and on paper, colours that
// colour-blind readers can tell apart.

#include <string>

#include "services/cli/bench/report.h"

namespace baton::cli {

// Title and settings of the report, then its pictures. Any text is escaped.
std::string ReportSvg(const BenchReport& report);

}  // namespace baton::cli
