#include "kernels/cuda/gemm.h"

#include <cublasLt.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace baton::cuda {
namespace {

Error ToError(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? Error::kNone : static_cast<Error>(kGemmError + static_cast<int>(status));
}

cudaDataType_t TypeOf(DType dtype) {
  return dtype == DType::kF32 ? CUDA_R_32F : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

constexpr int kProposals = 16;

bool IsNumber(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

}  // namespace

// cuBLASLt thinks in columns: y^T [outputs, rows] = (W^T)^T x^T.
struct Gemm::Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  cublasStatus_t Describe(const Shape& shape) {
    const auto& [dtype, rows, outputs, inputs, y_dtype] = shape;
    cublasStatus_t status = cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    }
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatrixLayoutCreate(&w, TypeOf(dtype), inputs, outputs, inputs);
    if (status == CUBLAS_STATUS_SUCCESS) status = cublasLtMatrixLayoutCreate(&x, TypeOf(dtype), inputs, rows, inputs);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatrixLayoutCreate(&y, TypeOf(y_dtype), outputs, rows, outputs);
    return status;
  }

  // Whether `chosen` computes this product, too.
  bool Takes(cublasLtHandle_t context, const cublasLtMatmulAlgo_t& chosen) const {
    cublasLtMatmulHeuristicResult_t result{};
    return cublasLtMatmulAlgoCheck(context, product, w, x, y, y, &chosen, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kWorkspaceBytes;
  }

  // The best that cuBLASLt proposes; of what it proposes in deterministic mode, the best that computes `others`, too.
  cublasStatus_t Choose(cublasLtHandle_t context, bool deterministic, const std::vector<OwnedPlan>& others) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    const auto bytes = static_cast<size_t>(kWorkspaceBytes);
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                    sizeof(bytes));
    }
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
    if (status == CUBLAS_STATUS_SUCCESS && deterministic) {
      status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                    sizeof(schemes));
    }
    cublasLtMatmulHeuristicResult_t found[kProposals] = {};
    int count = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulAlgoGetHeuristic(context, product, w, x, y, y, preference, others.empty() ? 1 : kProposals,
                                              found, &count);
    }
    const auto* chosen = std::find_if(found, found + count, [&](const cublasLtMatmulHeuristicResult_t& proposal) {
      return std::all_of(others.begin(), others.end(),
                         [&](const OwnedPlan& other) { return other->Takes(context, proposal.algo); });
    });
    if (status == CUBLAS_STATUS_SUCCESS && chosen == found + count) status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status == CUBLAS_STATUS_SUCCESS) algorithm = chosen->algo;
    if (preference != nullptr) cublasLtMatmulPreferenceDestroy(preference);
    return status;
  }
};

void Gemm::DestroyPlan::operator()(Plan* plan) const {
  for (const cublasLtMatrixLayout_t layout : {plan->w, plan->x, plan->y}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
  if (plan->product != nullptr) cublasLtMatmulDescDestroy(plan->product);
  delete plan;
}

void Gemm::DestroyContext::operator()(cublasLtContext* context) const { cublasLtDestroy(context); }

bool Gemm::LibraryFound() { return cublasLtGetVersion() != 0; }

Error Gemm::Create(void* workspace, bool deterministic, std::unique_ptr<Gemm>& gemm) {
  cublasLtHandle_t context;
  const cublasStatus_t status = cublasLtCreate(&context);
  if (status == CUBLAS_STATUS_SUCCESS) gemm.reset(new Gemm(context, workspace, deterministic));
  return ToError(status);
}

Error Gemm::Prepare(const Shape& shape, Plan*& plan) {
  if (const auto found = plans_.find(shape); found != plans_.end()) {
    plan = found->second.get();
    return Error::kNone;
  }
  OwnedPlan made(new Plan);
  cublasStatus_t status = made->Describe(shape);
  Shape fixed = shape;
  std::get<1>(fixed) = kDeterministicRows;
  if (status == CUBLAS_STATUS_SUCCESS && (!deterministic_ || shape == fixed)) {
    std::vector<OwnedPlan> others;
    for (const int64_t rows : {1, 16, 1024}) {
      if (!deterministic_ || status != CUBLAS_STATUS_SUCCESS) break;
      Shape other = shape;
      std::get<1>(other) = rows;
      status = others.emplace_back(new Plan)->Describe(other);
    }
    if (status == CUBLAS_STATUS_SUCCESS) status = made->Choose(context_.get(), deterministic_, others);
  } else if (status == CUBLAS_STATUS_SUCCESS) {
    Plan* of_fixed = nullptr;
    const Error error = Prepare(fixed, of_fixed);
    if (error != Error::kNone) return error;
    made->algorithm = of_fixed->algorithm;
  }
  if (status != CUBLAS_STATUS_SUCCESS) return ToError(status);
  plan = plans_.emplace(shape, std::move(made)).first->second.get();
  return Error::kNone;
}

Error Gemm::Run(DType dtype, const void* x, const void* w, int64_t rows, int64_t outputs, int64_t inputs, DType y_dtype,
                void* y, Stream stream) {
  if (!IsNumber(dtype) || (y_dtype != dtype && y_dtype != DType::kF32)) return Error::kInvalidValue;
  if (rows == 0) return Error::kNone;
  Plan* plan = nullptr;
  const Error error = Prepare({dtype, rows, outputs, inputs, y_dtype}, plan);
  if (error != Error::kNone) return error;
  const float one = 1, zero = 0;
  return ToError(cublasLtMatmul(context_.get(), plan->product, &one, w, plan->w, x, plan->x, &zero, y, plan->y, y,
                                plan->y, &plan->algorithm, workspace_, kWorkspaceBytes, stream));
}

}  // namespace baton::cuda
