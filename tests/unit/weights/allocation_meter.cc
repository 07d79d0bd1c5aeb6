#include "tests/unit/weights/allocation_meter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> requested{0};
}

void* operator new(size_t size) {
  requested += size;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace baton::weights {

AllocationMeter::AllocationMeter() : begin_(requested) {}
uint64_t AllocationMeter::bytes() const { return requested - begin_; }

}  // namespace baton::weights
