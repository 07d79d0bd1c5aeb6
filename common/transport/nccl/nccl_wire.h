#pragma once

// What travels beside NCCL's bytes, on one TCP connection for each session:
//   writer: kHello      target: kWelcome with NCCL's id, or kRefusal
//   writer: kAnnounce for every piece, in the order of its sends      target: kApplied for every piece, in the same
//   order
// The connection's end is the session's end, for both.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/kv_transport.h"

namespace baton {

// Most bytes of a piece: the size of a staging buffer.
inline constexpr uint64_t kNcclPieceBytes = 8 << 20;
// Pieces under way in a session: while one is sent, the next is gathered and the last one scattered.
inline constexpr size_t kNcclPieces = 3;

struct NcclDescriptor {
  uint64_t instance = 0;  // random, of one transport object
  uint64_t secret = 0;
  std::string host;
  uint16_t port = 0;
  uint64_t pool_bytes = 0;
};
std::string EncodeNcclDescriptor(const NcclDescriptor& descriptor);
absl::StatusOr<NcclDescriptor> DecodeNcclDescriptor(std::string_view bytes);

struct NcclHello {
  uint64_t instance = 0;
  uint64_t secret = 0;
};
std::string EncodeNcclHello(const NcclHello& hello);
absl::StatusOr<NcclHello> DecodeNcclHello(std::string_view body);

// Runs whose bytes lie one behind the other in the piece.
struct NcclPiece {
  WriteStamp stamp;
  std::vector<PutRun> runs;  // no sources at the target
  uint64_t bytes() const;
};
std::string EncodeNcclPiece(const NcclPiece& piece);
// INVALID_ARGUMENT unless it holds 1 to kNcclPieceBytes bytes in runs inside a pool of `pool_bytes`.
absl::StatusOr<NcclPiece> DecodeNcclPiece(std::string_view body, uint64_t pool_bytes);

}  // namespace baton
