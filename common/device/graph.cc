#include "common/device/graph.h"

#include <cuda_runtime.h>

#include "common/base/status.h"
#include "common/device/device.h"

namespace baton::device {

void Graph::Destroy::operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }

absl::StatusOr<Graph> Graph::Record(const Stream& stream, const std::function<absl::Status()>& enqueue) {
  BATON_RETURN_IF_ERROR(
      ToStatus(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "recording a graph"));
  const absl::Status enqueued = enqueue();
  cudaGraph_t recorded = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream.get(), &recorded);
  absl::Status status = enqueued.ok() ? ToStatus(ended, "recording a graph") : enqueued;
  Graph graph;
  if (status.ok()) {
    cudaGraphExec_t executable;
    status = ToStatus(cudaGraphInstantiate(&executable, recorded, 0), "making a graph");
    if (status.ok()) graph.graph_.reset(executable);
  }
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  BATON_RETURN_IF_ERROR(status);
  return graph;
}

absl::Status Graph::Launch(const Stream& stream) const {
  return ToStatus(cudaGraphLaunch(graph_.get(), stream.get()), "launching a graph");
}

}  // namespace baton::device
