#include "common/rpc/signals.h"

#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <thread>

namespace baton {
namespace {

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

int WaitFor(const sigset_t& set) {
  int signal = 0;
  sigwait(&set, &signal);
  return signal;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = SetOf({SIGTERM, SIGINT});
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int WaitForStopSignal() {
  const int signal = WaitFor(SetOf({SIGTERM, SIGINT}));
  std::thread([] { std::_Exit(128 + WaitFor(SetOf({SIGINT}))); }).detach();
  return signal;
}

}  // namespace baton
