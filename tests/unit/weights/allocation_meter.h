#pragma once

// Bytes that this process asked operator new for while a meter lives; replaces operator new in the binary it is linked
// to.

#include <cstdint>

namespace baton::weights {

class AllocationMeter {
 public:
  AllocationMeter();
  uint64_t bytes() const;

 private:
  uint64_t begin_;
};

}  // namespace baton::weights
