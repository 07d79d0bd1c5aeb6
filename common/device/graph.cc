#include "common/device/graph.h"

#include <cuda_runtime.h>

#include "common/base/status.h"
#include "common/device/device.h"

namespace baton::device {

void Graph::Destroy::operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }

absl::StatusOr<Graph> Graph::Record(const Stream& stream, const std::function<absl::Status()>& enqueue) {
  const Stream* const streams[] = {&stream};
  BATON_ASSIGN_OR_RETURN(std::vector<Graph> graphs, Record(streams, enqueue));
  return std::move(graphs[0]);
}

absl::StatusOr<std::vector<Graph>> Graph::Record(std::span<const Stream* const> streams,
                                                 const std::function<absl::Status()>& enqueue) {
  absl::Status status;
  size_t begun = 0;
  for (; status.ok() && begun < streams.size(); ++begun) {
    const cudaError_t error = cudaStreamBeginCapture(streams[begun]->get(), cudaStreamCaptureModeThreadLocal);
    status = ToStatus(error, "recording a graph");
    if (!status.ok()) break;
  }
  if (status.ok()) status = enqueue();
  // All captures end before anything is made of them, which a capture would forbid.
  std::vector<cudaGraph_t> recorded(begun, nullptr);
  for (size_t i = 0; i < begun; ++i) {
    const cudaError_t error = cudaStreamEndCapture(streams[i]->get(), &recorded[i]);
    if (status.ok()) status = ToStatus(error, "recording a graph");
  }
  std::vector<Graph> graphs(begun);
  for (size_t i = 0; i < begun; ++i) {
    cudaGraphExec_t executable;
    if (status.ok()) {
      status = ToStatus(cudaGraphInstantiate(&executable, recorded[i], 0), "making a graph");
      if (status.ok()) graphs[i].graph_.reset(executable);
    }
    if (recorded[i] != nullptr) cudaGraphDestroy(recorded[i]);
  }
  BATON_RETURN_IF_ERROR(status);
  return graphs;
}

absl::Status Graph::Launch(const Stream& stream) const {
  return ToStatus(cudaGraphLaunch(graph_.get(), stream.get()), "launching a graph");
}

}  // namespace baton::device
