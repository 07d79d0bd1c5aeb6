#include "common/kv/layout.h"

#include "common/base/hash.h"
#include "common/base/wire.h"

namespace baton {

LayoutHash KvLayout::Hash() const {
  WireWriter fields;
  fields.Put(kLayoutVersion);
  fields.Put(static_cast<uint8_t>(dtype));
  fields.Put(layers);
  fields.Put(kv_heads);
  fields.Put(head_dim);
  fields.Put(block_size);
  return LayoutHash{HashText(fields.Take()).low};
}

}  // namespace baton
