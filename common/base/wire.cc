#include "common/base/wire.h"

#include "common/base/status.h"

namespace baton {

absl::Status WireReader::Finish(std::string_view what) const {
  if (!ok_) return InvalidArgument("%s is cut short", what);
  if (!in_.empty()) return InvalidArgument("%s has %d bytes too many", what, in_.size());
  return absl::OkStatus();
}

}  // namespace baton
