// NCCL's functions, each found in its library when it is first called: a program that uses no NCCL must start where it
// is not.

#include <nccl.h>

#include <string>

#include "common/base/dynamic_library.h"

namespace {

const baton::DynamicLibrary& Library() {
  static const baton::DynamicLibrary library("libnccl.so." + std::to_string(NCCL_MAJOR), BATON_CUDA_LIBRARY_DIR);
  return library;
}

}  // namespace

#define BATON_FORWARD_RESULT(name, parameters, arguments) \
  BATON_FORWARD(ncclResult_t, ncclSystemError, name, parameters, arguments)

BATON_FORWARD(const char*, "NCCL's library was not found", ncclGetErrorString, (ncclResult_t result), (result))
BATON_FORWARD_RESULT(ncclGetUniqueId, (ncclUniqueId * id), (id))
BATON_FORWARD_RESULT(ncclCommInitRankConfig,
                     (ncclComm_t * communicator, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),
                     (communicator, ranks, id, rank, config))
BATON_FORWARD_RESULT(ncclCommGetAsyncError, (ncclComm_t communicator, ncclResult_t* state), (communicator, state))
BATON_FORWARD_RESULT(ncclCommAbort, (ncclComm_t communicator), (communicator))
BATON_FORWARD_RESULT(ncclSend,
                     (const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream),
                     (from, count, type, peer, communicator, stream))
BATON_FORWARD_RESULT(ncclRecv,
                     (void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream),
                     (to, count, type, peer, communicator, stream))
BATON_FORWARD_RESULT(ncclCommInitAll, (ncclComm_t * communicators, int count, const int* devices),
                     (communicators, count, devices))
BATON_FORWARD_RESULT(ncclGroupStart, (), ())
BATON_FORWARD_RESULT(ncclGroupEnd, (), ())
BATON_FORWARD_RESULT(ncclAllReduce,
                     (const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                      ncclComm_t communicator, cudaStream_t stream),
                     (from, to, count, type, operation, communicator, stream))
BATON_FORWARD_RESULT(ncclAllGather,
                     (const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t communicator,
                      cudaStream_t stream),
                     (from, to, count, type, communicator, stream))
