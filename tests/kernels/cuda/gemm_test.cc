#include "kernels/cuda/gemm.h"

#include <string>

#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/kernels/cuda/numbers.h"
#include "tests/kernels/reference.h"

namespace baton {
namespace {

class CudaGemm : public CudaTest {
 protected:
  std::vector<float> Run(cuda::Gemm& gemm, DType dtype, const std::vector<float>& x, const std::vector<float>& w,
                         int64_t rows, int64_t outputs, int64_t inputs, DType y_dtype) {
    const size_t bytes = rows * outputs * BlockOf(y_dtype).bytes;
    std::byte* y = NewDevice<std::byte>(bytes);
    Expect(gemm.Run(dtype, ToDevice(Encode(dtype, x)), ToDevice(Encode(dtype, w)), rows, outputs, inputs, y_dtype, y,
                    stream()));
    return Decode(y_dtype, ToHost(y, bytes).data(), rows * outputs);
  }
  std::unique_ptr<cuda::Gemm> New(bool deterministic) {
    std::unique_ptr<cuda::Gemm> gemm;
    Expect(cuda::Gemm::Create(NewDevice<std::byte>(cuda::Gemm::kWorkspaceBytes), deterministic, gemm));
    return gemm;
  }
};

// Needs no device.
TEST(CudaGemmLibrary, IsFoundWhereTheToolkitIs) { EXPECT_TRUE(cuda::Gemm::LibraryFound()); }

TEST_F(CudaGemm, MultipliesRowsByTheTransposedWeights) {
  constexpr int64_t kOutputs = 40, kInputs = 64;
  for (const bool deterministic : {false, true}) {
    const auto gemm = New(deterministic);
    for (const DType dtype : kActivationFormats) {
      for (const DType y_dtype : {dtype, DType::kF32}) {
        for (const int64_t rows : {1, 5, 70}) {
          const std::vector<float> x = Rounded(dtype, RandomFloats(rows * kInputs, 1)),
                                   w = Rounded(dtype, RandomFloats(kOutputs * kInputs, 2));
          const std::vector<float> expected = reference::Linear(w, {}, x, rows, kInputs, kOutputs);
          ExpectClose(y_dtype, Run(*gemm, dtype, x, w, rows, kOutputs, kInputs, y_dtype), expected, 2, 2.0f);
        }
      }
    }
  }
}

TEST_F(CudaGemm, ADeterministicRowDoesNotDependOnItsNeighbours) {
  constexpr int64_t kOutputs = 48, kInputs = 256;
  const auto gemm = New(true);
  for (const DType dtype : kActivationFormats) {
    const std::vector<float> x = Rounded(dtype, RandomFloats(130 * kInputs, 1)),
                             w = Rounded(dtype, RandomFloats(kOutputs * kInputs, 2));
    const std::vector<float> all = Run(*gemm, dtype, x, w, 130, kOutputs, kInputs, DType::kF32);
    for (const int64_t rows : {1, 2, 33}) {
      const std::vector<float> few = Run(*gemm, dtype, x, w, rows, kOutputs, kInputs, DType::kF32);
      ExpectSameBits(few.data(), all.data(), few.size());
    }
  }
}

TEST_F(CudaGemm, OtherFormatsAreRefused) {
  const auto gemm = New(false);
  EXPECT_EQ(gemm->Run(DType::kQ8_0, nullptr, nullptr, 1, 16, 32, DType::kF32, nullptr, stream()),
            cuda::Error::kInvalidValue);
  EXPECT_EQ(gemm->Run(DType::kF16, nullptr, nullptr, 1, 16, 32, DType::kBF16, nullptr, stream()),
            cuda::Error::kInvalidValue);
}

}  // namespace
}  // namespace baton
