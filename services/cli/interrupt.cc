#include "services/cli/interrupt.h"

#include <csignal>
#include <utility>

namespace baton::cli {
namespace {

sigset_t InterruptSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

InterruptWatch::InterruptWatch(std::function<void()> on_interrupt) {
  const sigset_t signals = InterruptSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this, signals, on_interrupt = std::move(on_interrupt)] {
    int signal = 0;
    while (sigwait(&signals, &signal) == 0) {
      if (stopping_) return;
      on_interrupt();
    }
  });
}

InterruptWatch::~InterruptWatch() {
  stopping_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
  const sigset_t signals = InterruptSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace baton::cli
