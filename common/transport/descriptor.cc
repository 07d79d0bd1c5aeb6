#include "common/transport/descriptor.h"

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/wire.h"

namespace baton {

std::string SealDescriptor(uint64_t magic, std::string_view body) {
  WireWriter out;
  out.Put(magic);
  out.Put(HashText(body).low);
  out.PutBytes(body);
  return out.Take();
}

absl::StatusOr<std::string> OpenDescriptor(uint64_t magic, std::string_view transport, std::string_view bytes) {
  WireReader in(bytes);
  const auto found = in.Get<uint64_t>();
  const auto checksum = in.Get<uint64_t>();
  std::string body = in.GetBytes();
  if (found != magic) {
    return InvalidArgument("%d bytes are not a descriptor of the %s transport", bytes.size(), transport);
  }
  BATON_RETURN_IF_ERROR(in.Finish("descriptor"));
  if (HashText(body).low != checksum) {
    return InvalidArgument("%s descriptor of %d bytes is damaged", transport, bytes.size());
  }
  return body;
}

}  // namespace baton
