#pragma once

// The filters templates may use, `value | name(arguments)`. A new one is one line of a catalogue.

#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja_runtime.h"

namespace baton::jinja {

using Filter = absl::StatusOr<Value> (*)(Runtime& runtime, const Value& value, const Arguments& arguments);
using FilterEntry = std::pair<std::string_view, Filter>;

bool HasFilter(std::string_view name);
absl::StatusOr<Value> ApplyFilter(Runtime& runtime, std::string_view name, const Value& value,
                                  const Arguments& arguments);

// The two halves of the catalogue.
const std::vector<FilterEntry>& TextAndNumberFilters();
const std::vector<FilterEntry>& SequenceFilters();

}  // namespace baton::jinja
