#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/base/clock.h"

namespace baton {

// What one render may use. Beyond it: RESOURCE_EXHAUSTED with the limit's number.
struct RenderLimits {
  int64_t steps = 4'000'000;         // nodes evaluated, list items and 64-byte pieces of strings handled
  int depth = 500;                   // nested evaluations, macro calls included
  size_t output_bytes = 16u << 20;   // the rendered prompt and its bookkeeping
  size_t string_bytes = 16u << 20;   // any one string
  size_t list_items = 1'000'000;     // any one list or dictionary
  size_t memory_bytes = 256u << 20;  // strings alive plus all lists and dictionaries made
  Duration wall_time = std::chrono::milliseconds(700);
};

}  // namespace baton
