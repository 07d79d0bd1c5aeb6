#pragma once

// The envelope of a transport's descriptor: magic number, checksum, body. Libraries trust what they unpack, so a
// damaged descriptor must be found before. It keeps out damage, not forgery.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton {

std::string SealDescriptor(uint64_t magic, std::string_view body);
// The body. INVALID_ARGUMENT for anything but a whole descriptor of this magic; `transport` is for the message.
absl::StatusOr<std::string> OpenDescriptor(uint64_t magic, std::string_view transport, std::string_view bytes);

}  // namespace baton
