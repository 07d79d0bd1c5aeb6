#include "common/kv/key_order.h"

#include <cstring>

namespace baton {

void CopyBlockInOrder(const KvLayout& layout, KeyOrder order, const std::byte* block, std::byte* out) {
  std::memcpy(out, block, layout.BytesPerBlock());
  if (order == layout.key_order) return;
  const uint64_t size = BlockOf(layout.dtype).bytes;
  const uint32_t slots = layout.block_size, elements = layout.head_dim;
  const bool to_slots = order == KeyOrder::kBySlot;
  for (uint32_t layer = 0; layer < layout.layers; ++layer) {
    for (uint32_t head = 0; head < layout.kv_heads; ++head) {
      const uint64_t piece = layout.HeadOffset(0, layer, 0, head);
      for (uint32_t slot = 0; slot < slots; ++slot) {
        for (uint32_t element = 0; element < elements; ++element) {
          const uint64_t by_slot = piece + (uint64_t{slot} * elements + element) * size;
          const uint64_t by_element = piece + (uint64_t{element} * slots + slot) * size;
          std::memcpy(out + (to_slots ? by_slot : by_element), block + (to_slots ? by_element : by_slot), size);
        }
      }
    }
  }
}

}  // namespace baton
