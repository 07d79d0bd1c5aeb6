#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/fakes/nccl/communicator.h"

namespace {

using baton::stand_in::Clique;
using baton::stand_in::Collective;

thread_local int group_depth = 0;

// In the order of ranks, whatever the device: the same bits each time.
void Run(const Collective& call) {
  const size_t ranks = call.from.size();
  std::vector<float> result;
  if (call.gathers) {
    for (const float* from : call.from) result.insert(result.end(), from, from + call.count);
  } else {
    result.assign(call.from[0], call.from[0] + call.count);
    for (size_t rank = 1; rank < ranks; ++rank) {
      for (size_t i = 0; i < call.count; ++i) result[i] += call.from[rank][i];
    }
  }
  for (float* to : call.to) std::copy(result.begin(), result.end(), to);
}

// A rank's part of a collective: comes to it when its stream gets there, and is over when all ranks have come. Copies
// of it, as a graph's launches make, are collectives of their own.
class Part {
 public:
  Part(std::shared_ptr<Clique> clique, size_t rank, bool gathers, const float* from, float* to, size_t count)
      : clique_(std::move(clique)), rank_(rank), gathers_(gathers), from_(from), to_(to), count_(count) {}

  bool operator()() {
    std::lock_guard lock(clique_->mutex);
    if (clique_->over()) return true;
    if (!number_.has_value()) Join();
    if (clique_->over()) return true;
    const auto found = clique_->calls.find(*number_);
    const size_t ranks = clique_->devices.size();
    if (found->second.arrived < ranks) return false;
    if (++found->second.left == ranks) clique_->calls.erase(found);
    return true;
  }

 private:
  void Join() {
    const size_t ranks = clique_->devices.size();
    number_ = clique_->begun[rank_]++;
    Collective& call = clique_->calls[*number_];
    if (call.arrived == 0) {
      call = {gathers_, count_, std::vector<const float*>(ranks), std::vector<float*>(ranks)};
    } else if (call.gathers != gathers_ || call.count != count_) {
      clique_->state = ncclInvalidUsage;
      return;
    }
    call.from[rank_] = from_;
    call.to[rank_] = to_;
    if (++call.arrived == ranks) Run(call);
  }

  const std::shared_ptr<Clique> clique_;
  const size_t rank_;
  const bool gathers_;
  const float* const from_;
  float* const to_;
  const size_t count_;
  std::optional<uint64_t> number_;
};

ncclResult_t Enqueue(bool gathers, const void* from, void* to, size_t count, ncclDataType_t type,
                     ncclComm* communicator, cudaStream_t stream) {
  const std::shared_ptr<Clique>& clique = communicator->clique;
  if (clique == nullptr || type != ncclFloat32) return ncclInvalidArgument;
  if (clique->devices[communicator->rank] != baton::stand_in::DeviceOf(stream)) return ncclInvalidArgument;
  // One thread that calls for one rank after another would wait in the first call for ever.
  if (group_depth == 0 && clique->devices.size() > 1) return ncclInvalidUsage;
  const cudaError_t error =
      baton::stand_in::EnqueueUntil(stream,
                                    Part(clique, static_cast<size_t>(communicator->rank), gathers,
                                         static_cast<const float*>(from), static_cast<float*>(to), count),
                                    {from, to});
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace

namespace baton::stand_in {

ncclResult_t SendToSelf(const void* from, size_t count, int peer, ncclComm* communicator) {
  // Alone it would wait for a receive that cannot be called.
  if (group_depth == 0 || peer != communicator->rank) return ncclInvalidUsage;
  std::lock_guard lock(communicator->clique->mutex);
  communicator->clique->to_self.push_back({from, count});
  return ncclSuccess;
}

ncclResult_t ReceiveFromSelf(void* to, size_t count, int peer, ncclComm* communicator, cudaStream_t stream) {
  if (group_depth == 0 || peer != communicator->rank) return ncclInvalidUsage;
  const void* from = nullptr;
  {
    std::lock_guard lock(communicator->clique->mutex);
    auto& sent = communicator->clique->to_self;
    if (sent.empty() || sent.front().second != count) return ncclInvalidUsage;
    from = sent.front().first;
    sent.pop_front();
  }
  const cudaError_t error = Enqueue(stream, [=] { std::memcpy(to, from, count); }, {from, to});
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace baton::stand_in

ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int count, const int* devices) {
  int there = 0;
  if (count < 1 || cudaGetDeviceCount(&there) != cudaSuccess) return ncclInvalidArgument;
  auto clique = std::make_shared<Clique>();
  for (int rank = 0; rank < count; ++rank) {
    const bool taken = std::count(clique->devices.begin(), clique->devices.end(), devices[rank]) > 0;
    if (devices[rank] < 0 || devices[rank] >= there || taken) return ncclInvalidUsage;
    clique->devices.push_back(devices[rank]);
  }
  clique->begun.resize(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank) communicators[rank] = new ncclComm{nullptr, clique, rank};
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  --group_depth;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t communicator, cudaStream_t stream) {
  return Enqueue(false, from, to, count, type, communicator, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  return Enqueue(true, from, to, count, type, communicator, stream);
}
