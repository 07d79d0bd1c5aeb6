#pragma once

// UCX's shared-memory segments by their names. One has a name from its creation until all its pages were written, for a
// pool of a GiB a good part of a second or more; a process that ends meanwhile leaves it behind, with its memory.

#include <cstdint>
#include <string>

namespace baton {

// Removes those of this user in `directory` that no process, in whatever namespace, has open or mapped any more.
// Returns how many those were.
uint32_t RemoveAbandonedUcxSegments(const std::string& directory = "/dev/shm");

// Removes those that this process has open, before it ends without UCX's own clean-up. Any thread.
void RemoveOwnUcxSegments();

}  // namespace baton
