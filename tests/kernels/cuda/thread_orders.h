#pragma once

// In which orders the threads of a block are run: several on the host, one on a device.

namespace baton {

int ThreadOrders();
// From now on; order is below ThreadOrders(), 0 the plain one.
void SetThreadOrder(int order);

// Runs a piece of a test once in every order.
template <typename Body>
void ForEveryOrder(const Body& body) {
  for (int order = ThreadOrders() - 1; order >= 0; --order) {
    SetThreadOrder(order);
    body();
  }
}

}  // namespace baton
