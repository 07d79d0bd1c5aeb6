#include "common/weights/dequantize.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/base/status.h"
#include "common/weights/gguf.h"
#include "tests/fakes/checkpoint_writer.h"

namespace baton::weights {
namespace {

// tests/golden/weights/make_quants.py wrote both files with the gguf package.
TEST(Dequantize, EveryFormatEqualsTheReferenceBitForBit) {
  const std::string golden = std::string(BATON_SOURCE_DIR) + "/tests/golden/weights";
  const auto gguf = ReadGguf(golden + "/quants.gguf");
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_EQ(gguf->tensors.size(), 8u);
  const std::string expected = fakes::ReadFile(golden + "/quants.f32");
  size_t position = 0;
  for (const auto& [name, tensor] : gguf->tensors) {
    std::vector<float> values(*ElementCount(tensor.shape));
    Dequantize(*tensor.dtype, tensor.data.data(), values.size(), values.data());
    ASSERT_LE(position + values.size() * sizeof(float), expected.size());
    EXPECT_EQ(std::memcmp(values.data(), expected.data() + position, values.size() * sizeof(float)), 0) << name;
    position += values.size() * sizeof(float);
  }
  EXPECT_EQ(position, expected.size());
}

TEST(Dequantize, F32IsCopied) {
  const float in[3] = {1.5f, -0.0f, 3e38f};
  float out[3];
  Dequantize(DType::kF32, reinterpret_cast<const std::byte*>(in), 3, out);
  EXPECT_EQ(std::memcmp(in, out, sizeof(in)), 0);
}

}  // namespace
}  // namespace baton::weights
