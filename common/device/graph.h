#pragma once

// Work that is recorded once and then enqueued as a whole, for the price of one launch.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device/stream.h"

struct CUgraphExec_st;

namespace baton::device {

// Keeps the pointers and shapes that were recorded; the memory behind them may change between launches.
class Graph {
 public:
  // Records what `enqueue` puts into `stream`; nothing of it runs. `enqueue` must not allocate, wait or use other
  // streams. Its error comes out, and the stream is usable afterwards either way.
  static absl::StatusOr<Graph> Record(const Stream& stream, const std::function<absl::Status()>& enqueue);

  // The same in several streams at once, each of its own device: a graph for each, to be launched together.
  static absl::StatusOr<std::vector<Graph>> Record(std::span<const Stream* const> streams,
                                                   const std::function<absl::Status()>& enqueue);

  absl::Status Launch(const Stream& stream) const;

 private:
  struct Destroy {
    void operator()(CUgraphExec_st* graph) const;
  };
  std::unique_ptr<CUgraphExec_st, Destroy> graph_;
};

}  // namespace baton::device
