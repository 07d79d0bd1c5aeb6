#pragma once

namespace baton {

// SIGTERM and SIGINT for this thread and all it starts are kept for WaitForStopSignal; call before any thread exists.
// SIGPIPE is ignored.
void BlockStopSignals();

// Returns the first signal's number. SIGINT after it ends the process at once; SIGTERM, which a drain may be asked for
// by more than one, does nothing more.
int WaitForStopSignal();

}  // namespace baton
