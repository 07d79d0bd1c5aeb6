#include "common/transport/nccl/nccl_wire.h"

#include "common/base/status.h"
#include "common/base/wire.h"
#include "common/transport/descriptor.h"

namespace baton {
namespace {

constexpr uint64_t kMagic = 0x314c'4343'4e4e'5442;  // "BTNNCCL1", little-endian

}  // namespace

std::string EncodeNcclDescriptor(const NcclDescriptor& descriptor) {
  WireWriter body;
  body.Put(descriptor.instance);
  body.Put(descriptor.secret);
  body.PutBytes(descriptor.host);
  body.Put(descriptor.port);
  body.Put(descriptor.pool_bytes);
  return SealDescriptor(kMagic, body.Take());
}

absl::StatusOr<NcclDescriptor> DecodeNcclDescriptor(std::string_view bytes) {
  BATON_ASSIGN_OR_RETURN(const std::string body, OpenDescriptor(kMagic, "nccl", bytes));
  WireReader in(body);
  NcclDescriptor out;
  out.instance = in.Get<uint64_t>();
  out.secret = in.Get<uint64_t>();
  out.host = in.GetBytes();
  out.port = in.Get<uint16_t>();
  out.pool_bytes = in.Get<uint64_t>();
  BATON_RETURN_IF_ERROR(in.Finish("nccl descriptor"));
  return out;
}

std::string EncodeNcclHello(const NcclHello& hello) {
  WireWriter body;
  body.Put(hello.instance);
  body.Put(hello.secret);
  return body.Take();
}

absl::StatusOr<NcclHello> DecodeNcclHello(std::string_view body) {
  WireReader in(body);
  NcclHello out;
  out.instance = in.Get<uint64_t>();
  out.secret = in.Get<uint64_t>();
  BATON_RETURN_IF_ERROR(in.Finish("nccl hello"));
  return out;
}

uint64_t NcclPiece::bytes() const {
  uint64_t sum = 0;
  for (const PutRun& run : runs) sum += run.bytes;
  return sum;
}

std::string EncodeNcclPiece(const NcclPiece& piece) {
  WireWriter body;
  body.Put(piece.stamp.lease.value);
  body.Put(piece.stamp.generation);
  body.Put(static_cast<uint32_t>(piece.runs.size()));
  for (const PutRun& run : piece.runs) {
    body.Put(run.target_offset);
    body.Put(run.bytes);
  }
  return body.Take();
}

absl::StatusOr<NcclPiece> DecodeNcclPiece(std::string_view body, uint64_t pool_bytes) {
  WireReader in(body);
  NcclPiece piece;
  piece.stamp.lease.value = in.Get<uint64_t>();
  piece.stamp.generation = in.Get<uint64_t>();
  const auto runs = in.Get<uint32_t>();
  if (runs > body.size() / 16) return InvalidArgument("%d runs in %d bytes", runs, body.size());
  uint64_t left = kNcclPieceBytes;
  for (uint32_t i = 0; i < runs; ++i) {
    PutRun run;
    run.target_offset = in.Get<uint64_t>();
    run.bytes = in.Get<uint64_t>();
    if (run.bytes == 0 || run.bytes > left) {
      return InvalidArgument("run of %d bytes in a piece with %d left of %d", run.bytes, left, kNcclPieceBytes);
    }
    if (run.target_offset > pool_bytes || run.bytes > pool_bytes - run.target_offset) {
      return InvalidArgument("run of %d bytes at %d, the pool has %d", run.bytes, run.target_offset, pool_bytes);
    }
    left -= run.bytes;
    piece.runs.push_back(run);
  }
  BATON_RETURN_IF_ERROR(in.Finish("nccl piece"));
  if (piece.runs.empty()) return InvalidArgument("a piece without runs");
  return piece;
}

}  // namespace baton
