#include "common/weights/code_groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/weights/dequantize.h"
#include "common/weights/gguf.h"

namespace baton::weights {
namespace {

TEST(CodeGroups, GiveBackTheValuesOfTheirBlocks) {
  const auto gguf = ReadGguf(std::string(BATON_SOURCE_DIR) + "/tests/golden/weights/quants.gguf");
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  int formats = 0;
  for (const auto& [name, tensor] : gguf->tensors) {
    const DType dtype = *tensor.dtype;
    if (!HasCodeGroups(dtype)) continue;
    ++formats;
    const uint64_t elements = *ElementCount(tensor.shape), groups = elements / kCodeGroup;
    std::vector<float> values(elements);
    Dequantize(dtype, tensor.data.data(), elements, values.data());
    std::vector<uint8_t> codes(elements);
    std::vector<uint16_t> scales(groups), minimums(groups);
    UnpackCodes(dtype, tensor.data.data(), elements, {codes.data(), scales.data(), minimums.data()});
    const int offset = dtype == DType::kQ8_0 ? 128 : dtype == DType::kQ4_0 ? 8 : 0;
    for (uint64_t i = 0; i < elements; ++i) {
      const float scale = F32FromF16(scales[i / kCodeGroup]), minimum = F32FromF16(minimums[i / kCodeGroup]);
      const float value = scale * static_cast<float>(int{codes[i]} - offset) + minimum;
      if (dtype == DType::kQ4_K) {
        const float bound = 0x1p-11f * (15 * std::abs(scale) + std::abs(minimum));
        ASSERT_NEAR(value, values[i], bound * 1.01f) << name << " " << i;
      } else {
        ASSERT_EQ(value, values[i]) << name << " " << i;
      }
    }
  }
  EXPECT_EQ(formats, 4);
}

TEST(CodeGroups, AreNotThoseOfFormatsWithShorterGroupsOrMoreBits) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ5_K, DType::kQ6_K}) {
    EXPECT_FALSE(HasCodeGroups(dtype)) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace baton::weights
