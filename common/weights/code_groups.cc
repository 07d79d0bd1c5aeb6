#include "common/weights/code_groups.h"

#include <cstring>

#include "common/base/status.h"
#include "common/weights/q4_k_scales.h"

namespace baton::weights {
namespace {

uint16_t Load16(const uint8_t* in) { return static_cast<uint16_t>(in[0] | (in[1] << 8)); }

// Eight bytes at a time: loading a model passes every weight through these.
template <int kBytes, typename Change>
void MapBytes(const uint8_t* in, uint8_t* out, const Change& change) {
  uint64_t words[kBytes / 8];
  std::memcpy(words, in, kBytes);
  for (uint64_t& word : words) word = change(word);
  std::memcpy(out, words, kBytes);
}

constexpr uint64_t kEveryByte = 0x0101010101010101;

uint64_t LowHalves(uint64_t word) { return word & 15 * kEveryByte; }
uint64_t HighHalves(uint64_t word) { return word >> 4 & 15 * kEveryByte; }

// 16 bytes of nibbles: value i in the low half of byte i, i + 16 in its high half.
void SplitHalves(const uint8_t* in, uint8_t* codes) {
  MapBytes<16>(in, codes, LowHalves);
  MapBytes<16>(in, codes + 16, HighHalves);
}

void UnpackQ4_K(const uint8_t* in, uint8_t* codes, uint16_t* scales, uint16_t* minimums) {
  const float block_scale = F32FromF16(Load16(in)), block_minimum = F32FromF16(Load16(in + 2));
  for (int group = 0; group < 8; ++group) {
    float scale, minimum;
    UnpackQ4_KScales(in + 4, group, &scale, &minimum);
    scales[group] = F16FromF32(block_scale * scale);
    minimums[group] = F16FromF32(-(block_minimum * minimum));
    const uint8_t* quants = in + 16 + group / 2 * 32;
    group % 2 ? MapBytes<32>(quants, codes + group * 32, HighHalves)
              : MapBytes<32>(quants, codes + group * 32, LowHalves);
  }
}

}  // namespace

bool HasCodeGroups(DType dtype) {
  return dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ4_1 || dtype == DType::kQ4_K;
}

void UnpackCodes(DType dtype, const std::byte* bytes, uint64_t elements, const CodeGroups& out) {
  BATON_CHECK(HasCodeGroups(dtype));
  const auto* in = reinterpret_cast<const uint8_t*>(bytes);
  const DTypeBlock block = BlockOf(dtype);
  for (uint64_t i = 0; i < elements; i += block.elements, in += block.bytes) {
    const uint64_t group = i / kCodeGroup;
    if (dtype == DType::kQ4_K) {
      UnpackQ4_K(in, out.codes + i, out.scales + group, out.minimums + group);
      continue;
    }
    out.scales[group] = Load16(in);
    if (dtype == DType::kQ8_0) {
      // Signed to offset 128.
      MapBytes<32>(in + 2, out.codes + i, [](uint64_t word) { return word ^ 0x80 * kEveryByte; });
    } else if (dtype == DType::kQ4_0) {
      SplitHalves(in + 2, out.codes + i);
    } else {
      out.minimums[group] = Load16(in + 2);
      SplitHalves(in + 4, out.codes + i);
    }
  }
}

}  // namespace baton::weights
