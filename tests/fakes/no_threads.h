#pragma once

namespace baton {

// While one lives, no thread of this process can be started: pthread_create says EAGAIN, as at a limit of the system.
class NoThreads {
 public:
  NoThreads();
  ~NoThreads();
};

}  // namespace baton
