#include "common/weights/tensor.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace baton::weights {

std::string ShapeText(const std::vector<uint64_t>& shape) { return "[" + absl::StrJoin(shape, ", ") + "]"; }

std::string Quoted(std::string_view name) {
  constexpr size_t kLongest = 120;
  const std::string head(name.substr(0, kLongest));
  return "'" + absl::CEscape(head) + (name.size() > kLongest ? "...'" : "'");
}

std::optional<uint64_t> ElementCount(const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t dimension : shape) {
    if (__builtin_mul_overflow(count, dimension, &count)) return std::nullopt;
  }
  if (count >> 63) return std::nullopt;
  return count;
}

}  // namespace baton::weights
