#include "common/transport/ucx/ucx_descriptor.h"

#include "common/base/status.h"
#include "common/base/wire.h"
#include "common/transport/descriptor.h"

namespace baton {
namespace {

constexpr uint64_t kMagic = 0x3158'4355'4e4f'5442;  // "BTONUCX1", little-endian

}  // namespace

std::string EncodeUcxDescriptor(const UcxDescriptor& descriptor) {
  WireWriter body;
  body.Put(descriptor.instance);
  body.PutBytes(descriptor.worker_address);
  body.PutBytes(descriptor.remote_key);
  body.Put(descriptor.pool_address);
  body.Put(descriptor.pool_bytes);
  body.Put(static_cast<uint8_t>(descriptor.refuse_one_sided));
  return SealDescriptor(kMagic, body.Take());
}

absl::StatusOr<UcxDescriptor> DecodeUcxDescriptor(std::string_view bytes) {
  BATON_ASSIGN_OR_RETURN(const std::string body, OpenDescriptor(kMagic, "ucx", bytes));
  WireReader fields(body);
  UcxDescriptor out;
  out.instance = fields.Get<uint64_t>();
  out.worker_address = fields.GetBytes();
  out.remote_key = fields.GetBytes();
  out.pool_address = fields.Get<uint64_t>();
  out.pool_bytes = fields.Get<uint64_t>();
  out.refuse_one_sided = fields.Get<uint8_t>() != 0;
  BATON_RETURN_IF_ERROR(fields.Finish("ucx descriptor"));
  if (out.pool_address + out.pool_bytes < out.pool_address) {
    return InvalidArgument("ucx descriptor has a pool of %d bytes at %x", out.pool_bytes, out.pool_address);
  }
  return out;
}

}  // namespace baton
