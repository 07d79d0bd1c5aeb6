#include "tests/fakes/cuda/stand_in.h"
#include "tests/kernels/cuda/thread_orders.h"

namespace baton {

int ThreadOrders() { return 3; }

void SetThreadOrder(int order) {
  if (order == 0) return stand_in::SetOrder(std::nullopt);
  stand_in::SetOrder(static_cast<uint64_t>(order));
}

}  // namespace baton
