#pragma once

// Active messages between a writer's session and the target. Headers are plain structs in host byte order: both ends
// are Baton processes of one protocol version, which the descriptor carries. A header of the wrong size is dropped.

#include <cstdint>

namespace baton {

enum UcxMessageId : unsigned {
  kUcxOpen = 1,     // writer -> target; payload: the writer's worker address
  kUcxOpened = 2,   // target -> writer
  kUcxWrite = 3,    // writer -> target; payload: the bytes
  kUcxFlush = 4,    // writer -> target
  kUcxFlushed = 5,  // target -> writer
  kUcxClose = 6,    // writer -> target: this session is over
  kUcxGoodbye = 7,  // target -> writer: the pool is going, or could not be written to
};

// Most bytes of a kUcxWrite: the target holds each whole before it asks its gate.
inline constexpr uint64_t kUcxWriteBytes = 256 << 10;

struct UcxOpen {
  uint64_t target_instance;  // from the descriptor: another one means that the target restarted
  uint64_t writer_session;
};
struct UcxOpened {
  uint64_t writer_session;
  uint64_t target_session;  // 0: refused, the instance is another
};
struct UcxWrite {
  uint64_t target_session;
  uint64_t lease, generation;
  uint64_t offset;
};
struct UcxFlush {
  uint64_t target_session;
  uint64_t flush;
  uint64_t writes;  // sent on this session so far; the answer waits for all of them
};
struct UcxFlushed {
  uint64_t writer_session;
  uint64_t flush;
};
struct UcxClose {
  uint64_t target_session;
};
struct UcxGoodbye {
  uint64_t writer_session;
};

}  // namespace baton
