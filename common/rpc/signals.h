#pragma once

namespace baton {

// SIGTERM and SIGINT for this thread and all it starts are kept for WaitForStopSignal; call before any thread exists.
// SIGPIPE is ignored.
void BlockStopSignals();

// Returns the signal's number. A second signal after it ends the process at once.
int WaitForStopSignal();

}  // namespace baton
