#include "common/transport/put_runs.h"

#include <algorithm>

#include "common/base/status.h"

namespace baton {

absl::Status CheckRuns(std::span<const PutRun> runs, uint64_t pool_bytes, const PutSource& source) {
  const uint64_t source_bytes = source.pool == nullptr ? 0 : source.pool->bytes();
  for (const PutRun& run : runs) {
    if (run.target_offset > pool_bytes || run.bytes > pool_bytes - run.target_offset) {
      return OutOfRange("put of %d bytes at offset %d does not fit the peer's pool of %d bytes", run.bytes,
                        run.target_offset, pool_bytes);
    }
    if (run.source != nullptr || run.bytes == 0) continue;
    if (source.pool == nullptr) return InvalidArgument("put of %d bytes has no source", run.bytes);
    if (run.source_offset > source_bytes || run.bytes > source_bytes - run.source_offset) {
      return OutOfRange("put of %d bytes from offset %d of a source of %d bytes", run.bytes, run.source_offset,
                        source_bytes);
    }
  }
  return absl::OkStatus();
}

bool Continues(const PutRun& run, const PutRun& next) {
  if ((run.source == nullptr) != (next.source == nullptr)) return false;
  const bool in_source = run.source == nullptr ? run.source_offset + run.bytes == next.source_offset
                                               : run.source + run.bytes == next.source;
  return in_source && run.target_offset + run.bytes == next.target_offset;
}

std::vector<PutRun> ArrangeRuns(std::span<const PutRun> runs, uint64_t max_bytes) {
  std::vector<PutRun> joined;
  for (const PutRun& run : runs) {
    if (run.bytes == 0) continue;
    if (!joined.empty() && Continues(joined.back(), run)) {
      joined.back().bytes += run.bytes;
    } else {
      joined.push_back(run);
    }
  }
  std::vector<PutRun> pieces;
  pieces.reserve(joined.size());
  for (const PutRun& run : joined) {
    for (uint64_t done = 0; done < run.bytes; done += max_bytes) {
      PutRun piece{run.source, run.target_offset + done, std::min(max_bytes, run.bytes - done), run.source_offset};
      if (run.source == nullptr) {
        piece.source_offset += done;
      } else {
        piece.source += done;
      }
      pieces.push_back(piece);
    }
  }
  return pieces;
}

}  // namespace baton
