#pragma once

// What a communicator of the stand-in is: one end of a pair of processes or threads, or a member of a clique of one
// process's devices.

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace baton::stand_in {

// A rank's socket, and how it stands; shared with its work in streams.
struct Link {
  std::mutex mutex;
  int listener = -1;  // of rank 0 until the other has come
  int fd = -1;
  ncclResult_t state = ncclInProgress;  // of the last call; an error stays
  bool aborted = false;

  ~Link();
  bool over() const { return aborted || (state != ncclSuccess && state != ncclInProgress); }
  void Fail(ncclResult_t error) {
    if (!over()) state = error;
  }
};

// A collective call, as far as its ranks have come to it in their streams.
struct Collective {
  bool gathers = false;  // else sums
  size_t count = 0;
  std::vector<const float*> from;
  std::vector<float*> to;
  size_t arrived = 0, left = 0;
};

// All ranks of ncclCommInitAll; shared with their work in streams.
struct Clique {
  std::mutex mutex;
  std::vector<int> devices;                            // by rank
  std::vector<uint64_t> begun;                         // collectives, by rank
  std::map<uint64_t, Collective> calls;                // by their number
  std::deque<std::pair<const void*, size_t>> to_self;  // sends of this group that wait for their receive
  ncclResult_t state = ncclSuccess;
  bool aborted = false;

  bool over() const { return aborted || state != ncclSuccess; }
};

// What ncclSend and ncclRecv are for a member of a clique: a rank may send to itself, in a group, sends first.
ncclResult_t SendToSelf(const void* from, size_t count, int peer, ncclComm* communicator);
ncclResult_t ReceiveFromSelf(void* to, size_t count, int peer, ncclComm* communicator, cudaStream_t stream);

}  // namespace baton::stand_in

struct ncclComm {
  std::shared_ptr<baton::stand_in::Link> link;  // one of these two
  std::shared_ptr<baton::stand_in::Clique> clique;
  int rank = 0;
};
