#pragma once

namespace baton {

inline constexpr char kVersion[] = "0.1.0";
// Between routers and workers; unequal ones refuse each other by name.
inline constexpr unsigned kInternalProtocolVersion = 1;

}  // namespace baton
