#include "common/transport/put_runs.h"

#include <algorithm>

#include "common/base/status.h"

namespace baton {

absl::Status CheckRuns(std::span<const PutRun> runs, uint64_t pool_bytes) {
  for (const PutRun& run : runs) {
    if (run.target_offset > pool_bytes || run.bytes > pool_bytes - run.target_offset) {
      return OutOfRange("put of %d bytes at offset %d does not fit the peer's pool of %d bytes", run.bytes,
                        run.target_offset, pool_bytes);
    }
    if (run.source == nullptr && run.bytes > 0) return InvalidArgument("put of %d bytes has no source", run.bytes);
  }
  return absl::OkStatus();
}

std::vector<PutRun> ArrangeRuns(std::span<const PutRun> runs, uint64_t max_bytes) {
  std::vector<PutRun> joined;
  for (const PutRun& run : runs) {
    if (run.bytes == 0) continue;
    PutRun* last = joined.empty() ? nullptr : &joined.back();
    if (last != nullptr && last->source + last->bytes == run.source &&
        last->target_offset + last->bytes == run.target_offset) {
      last->bytes += run.bytes;
    } else {
      joined.push_back(run);
    }
  }
  std::vector<PutRun> pieces;
  pieces.reserve(joined.size());
  for (const PutRun& run : joined) {
    for (uint64_t done = 0; done < run.bytes; done += max_bytes) {
      pieces.push_back({run.source + done, run.target_offset + done, std::min(max_bytes, run.bytes - done)});
    }
  }
  return pieces;
}

}  // namespace baton
