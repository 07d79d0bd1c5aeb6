// Which formats panels come in, and that quantised files keep their codes.

#include "common/engine/panel_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/status.h"
#include "common/weights/dequantize.h"
#include "common/weights/gguf.h"
#include "kernels/aligned_buffer.h"

namespace baton {
namespace {

using model::TensorView;

// The tensors of tests/golden/weights/quants.gguf: one of every format, 512 values or more.
class GoldenTensors : public testing::Test {
 protected:
  void SetUp() override {
    auto gguf = weights::ReadGguf(std::string(BATON_SOURCE_DIR) + "/tests/golden/weights/quants.gguf");
    ASSERT_TRUE(gguf.ok());
    gguf_ = *std::move(gguf);
  }

  TensorView Tensor(DType dtype) const {
    for (const auto& [name, tensor] : gguf_.tensors) {
      if (*tensor.dtype != dtype) continue;
      return {.name = name, .dtype = dtype, .rows = tensor.shape[0], .cols = tensor.shape[1], .data = tensor.data};
    }
    ADD_FAILURE() << "no tensor of " << DTypeName(dtype);
    return {};
  }

  // All values of the parts' panels, and of the parts by the reference.
  static std::vector<float> Packed(const MatrixParts& parts, DType dtype) {
    cpu::PanelMatrix matrix{dtype, 0, static_cast<int64_t>(parts[0]->cols), nullptr};
    for (const TensorView* part : parts) matrix.outputs += static_cast<int64_t>(part->rows);
    const AlignedBuffer memory(matrix.bytes());
    matrix.data = memory.data();
    PanelScratch scratch;
    for (int64_t panel = 0; panel < matrix.panels(); ++panel) {
      EXPECT_TRUE(PackPanel(parts, matrix, panel, scratch).ok());
    }
    std::vector<float> values(static_cast<size_t>(matrix.outputs * matrix.inputs));
    for (int64_t o = 0; o < matrix.outputs; ++o) cpu::UnpackRow(matrix, o, values.data() + o * matrix.inputs);
    return values;
  }
  static std::vector<float> Reference(const MatrixParts& parts) {
    std::vector<float> values;
    for (const TensorView* part : parts) {
      std::vector<float> rows(part->parameters());
      weights::Dequantize(part->dtype, part->data.data(), rows.size(), rows.data());
      values.insert(values.end(), rows.begin(), rows.end());
    }
    return values;
  }

  weights::GgufFile gguf_;
};

TEST_F(GoldenTensors, KeepTheirCodesWherePanelsHaveTheirGroups) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    const TensorView tensor = Tensor(dtype);
    ASSERT_EQ(PanelDType(WeightsFormat::kAuto, {&tensor}, false), dtype);
    EXPECT_EQ(Packed({&tensor}, dtype), Reference({&tensor})) << DTypeName(dtype);
  }
}

TEST_F(GoldenTensors, FourBitsWithoutMinimumAreExactInTheOtherFormats) {
  const TensorView tensor = Tensor(DType::kQ4_0);
  EXPECT_EQ(Packed({&tensor}, DType::kQ8_0), Reference({&tensor}));
  EXPECT_EQ(Packed({&tensor}, DType::kQ4_1), Reference({&tensor}));
}

TEST_F(GoldenTensors, FourBitsWithMinimumLoseLittleAtEight) {
  const TensorView tensor = Tensor(DType::kQ4_1);
  const std::vector<float> packed = Packed({&tensor}, DType::kQ8_0), reference = Reference({&tensor});
  double error = 0;
  for (size_t first = 0; first < packed.size(); first += 32) {
    float largest = 0;
    for (size_t i = first; i < first + 32; ++i) largest = std::max(largest, std::abs(reference[i]));
    for (size_t i = first; i < first + 32; ++i) {
      error += std::abs(packed[i] - reference[i]) / (largest / 127);
      EXPECT_LE(std::abs(packed[i] - reference[i]), 0.75f * largest / 127) << i;
    }
  }
  EXPECT_LT(error / packed.size(), 0.15);  // steps; rounding each value for itself gives 0.25
}

TEST_F(GoldenTensors, AreNeverWiderThanEightBits) {
  for (const DType dtype : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const TensorView tensor = Tensor(dtype);
    const DType panels = PanelDType(WeightsFormat::kAuto, {&tensor}, false);
    EXPECT_EQ(panels, dtype == DType::kQ4_K ? DType::kQ4_1 : DType::kQ8_0);
    const std::vector<float> packed = Packed({&tensor}, panels), reference = Reference({&tensor});
    double error = 0, energy = 0;
    for (size_t i = 0; i < packed.size(); ++i) {
      error += (packed[i] - reference[i]) * (packed[i] - reference[i]);
      energy += reference[i] * reference[i];
    }
    EXPECT_LT(error, 1e-4 * energy) << DTypeName(dtype);  // a hundredth of what the formats themselves lose
  }
}

TEST(PanelDType, IsWhatTheFlagAsksForAndKeepsWhatTheFileHas) {
  const TensorView f32{.dtype = DType::kF32}, bf16{.dtype = DType::kBF16}, q8{.dtype = DType::kQ8_0},
      q4{.dtype = DType::kQ4_0}, q4_1{.dtype = DType::kQ4_1}, q6{.dtype = DType::kQ6_K};
  using enum WeightsFormat;
  EXPECT_EQ(PanelDType(kAuto, {&bf16, &bf16}, false), DType::kBF16);
  EXPECT_EQ(PanelDType(kAuto, {&bf16, &f32}, false), DType::kF32);
  EXPECT_EQ(PanelDType(kAuto, {&q4, &q4_1}, false), DType::kQ4_1);
  EXPECT_EQ(PanelDType(kAuto, {&q4, &q6, &q4}, false), DType::kQ8_0);
  EXPECT_EQ(PanelDType(kAuto, {&q4, &f32}, false), DType::kF32);
  EXPECT_EQ(PanelDType(kInt8, {&bf16}, false), DType::kQ8_0);
  EXPECT_EQ(PanelDType(kInt4, {&bf16}, false), DType::kQ4_1);
  EXPECT_EQ(PanelDType(kInt4, {&q4}, false), DType::kQ4_0);
  EXPECT_EQ(PanelDType(kInt4, {&bf16}, true), DType::kQ8_0);
  EXPECT_EQ(PanelDType(kInt4, {&q4_1}, true), DType::kQ4_1);
  EXPECT_EQ(PanelDType(kF16, {&q8}, true), DType::kF16);
}

}  // namespace
}  // namespace baton
