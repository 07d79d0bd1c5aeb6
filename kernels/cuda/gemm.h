#pragma once

// y = x W^T by cuBLASLt.

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "common/base/dtype.h"
#include "kernels/cuda/stream.h"

struct cublasLtContext;

namespace baton::cuda {

// cuBLASLt's own errors come back as kGemmError + cublasStatus_t.
inline constexpr int kGemmError = 10000;

// Chooses an algorithm for each shape when it first comes, which allocates on the host alone. One thread at a time.
class Gemm {
 public:
  // Bytes of device memory that a Gemm works in.
  static constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;

  // Whether cuBLASLt is on this machine; its library is loaded when it is used first.
  static bool LibraryFound();

  // `workspace`: kWorkspaceBytes, aligned to 256, of this Gemm alone. Deterministic: one algorithm for all numbers of
  // rows, chosen for kDeterministicRows among those that take few and many, and no sum over k that is split, so that a
  // row's result does not depend on its neighbours.
  static Error Create(void* workspace, bool deterministic, std::unique_ptr<Gemm>& gemm);

  // x: [rows, inputs], w: [outputs, inputs], y: [rows, outputs], all dense. x and w have one format, f32, f16 or bf16;
  // y has it or is f32. Sums are f32.
  Error Run(DType dtype, const void* x, const void* w, int64_t rows, int64_t outputs, int64_t inputs, DType y_dtype,
            void* y, Stream stream);

 private:
  static constexpr int64_t kDeterministicRows = 64;
  // dtype, rows, outputs, inputs, y_dtype
  using Shape = std::tuple<DType, int64_t, int64_t, int64_t, DType>;
  struct Plan;
  struct DestroyContext {
    void operator()(cublasLtContext* context) const;
  };
  struct DestroyPlan {
    void operator()(Plan* plan) const;
  };
  using OwnedPlan = std::unique_ptr<Plan, DestroyPlan>;

  Gemm(cublasLtContext* context, void* workspace, bool deterministic)
      : context_(context), workspace_(workspace), deterministic_(deterministic) {}
  Error Prepare(const Shape& shape, Plan*& plan);

  std::unique_ptr<cublasLtContext, DestroyContext> context_;
  void* const workspace_;
  const bool deterministic_;
  std::map<Shape, OwnedPlan> plans_;
};

}  // namespace baton::cuda
