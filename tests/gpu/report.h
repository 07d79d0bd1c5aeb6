#pragma once

// From the records of a run to its report: figures beside the ceilings of the same run, and whether the targets are
// met.

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace baton {

// `records`: in the order they were written. What is not there is left out; a target without its figures is "not
// measured".
nlohmann::ordered_json MakeReport(const std::vector<nlohmann::json>& records);

// Tables, for people.
std::string ReportText(const nlohmann::ordered_json& report);

}  // namespace baton
