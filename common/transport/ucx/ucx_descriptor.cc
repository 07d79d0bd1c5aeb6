#include "common/transport/ucx/ucx_descriptor.h"

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/wire.h"

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
  const std::string bytes = body.Take();
  WireWriter out;
  out.Put(kMagic);
  out.Put(HashText(bytes).low);
  out.PutBytes(bytes);
  return out.Take();
}

absl::StatusOr<UcxDescriptor> DecodeUcxDescriptor(std::string_view bytes) {
  WireReader in(bytes);
  const auto magic = in.Get<uint64_t>();
  const auto checksum = in.Get<uint64_t>();
  const std::string body = in.GetBytes();
  if (magic != kMagic) return InvalidArgument("%d bytes are not a descriptor of the ucx transport", bytes.size());
  BATON_RETURN_IF_ERROR(in.Finish("ucx descriptor"));
  if (HashText(body).low != checksum) return InvalidArgument("ucx descriptor of %d bytes is damaged", bytes.size());
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
