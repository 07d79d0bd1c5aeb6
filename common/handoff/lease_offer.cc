#include "common/handoff/lease_offer.h"

#include "common/base/status.h"
#include "common/base/wire.h"

namespace baton {

std::string Encode(const TargetDescriptor& descriptor) {
  WireWriter out;
  out.Put(descriptor.incarnation.value);
  out.Put(descriptor.layout_hash.value);
  out.Put(descriptor.numerics_hash.value);
  out.Put(static_cast<uint8_t>(descriptor.key_order));
  out.Put(static_cast<uint8_t>(descriptor.allow_mixed_numerics));
  out.Put(descriptor.secret);
  out.PutBytes(descriptor.control_host);
  out.Put(descriptor.control_port);
  out.PutBytes(descriptor.transport);
  out.PutBytes(descriptor.transport_descriptor);
  return out.Take();
}

absl::StatusOr<TargetDescriptor> DecodeTargetDescriptor(std::string_view bytes) {
  WireReader in(bytes);
  TargetDescriptor descriptor;
  descriptor.incarnation.value = in.Get<uint64_t>();
  descriptor.layout_hash.value = in.Get<uint64_t>();
  descriptor.numerics_hash.value = in.Get<uint64_t>();
  const auto key_order = in.Get<uint8_t>();
  descriptor.key_order = static_cast<KeyOrder>(key_order);
  descriptor.allow_mixed_numerics = in.Get<uint8_t>() != 0;
  descriptor.secret = in.Get<uint64_t>();
  descriptor.control_host = in.GetBytes();
  descriptor.control_port = in.Get<uint16_t>();
  descriptor.transport = in.GetBytes();
  descriptor.transport_descriptor = in.GetBytes();
  BATON_RETURN_IF_ERROR(in.Finish("target descriptor"));
  if (key_order > static_cast<uint8_t>(KeyOrder::kByElement)) {
    return InvalidArgument("target descriptor with key order %d", key_order);
  }
  return descriptor;
}

std::string Encode(const LeaseOffer& offer) {
  WireWriter out;
  out.Put(offer.key.lease.value);
  out.Put(offer.key.generation);
  out.Put(offer.key.secret);
  out.Put(offer.first_block);
  out.PutVector(offer.blocks);
  out.PutBytes(offer.target);
  return out.Take();
}

absl::StatusOr<LeaseOffer> DecodeLeaseOffer(std::string_view bytes) {
  WireReader in(bytes);
  LeaseOffer offer;
  offer.key.lease.value = in.Get<uint64_t>();
  offer.key.generation = in.Get<uint64_t>();
  offer.key.secret = in.Get<uint64_t>();
  offer.first_block = in.Get<uint32_t>();
  offer.blocks = in.GetVector<BlockId>();
  offer.target = in.GetBytes();
  BATON_RETURN_IF_ERROR(in.Finish("lease offer"));
  return offer;
}

}  // namespace baton
