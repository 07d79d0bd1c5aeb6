#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/dtype.h"

struct cublasLtContext {};
struct cublasLtMatmulDescStandIn {
  bool transposed = false;
};
struct cublasLtMatrixLayoutStandIn {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
};
struct cublasLtMatmulPreferenceStandIn {};

namespace {

float Load(const void* from, cudaDataType_t type, int64_t element) {
  if (type == CUDA_R_32F) return static_cast<const float*>(from)[element];
  const uint16_t bits = static_cast<const uint16_t*>(from)[element];
  return type == CUDA_R_16F ? baton::F32FromF16(bits) : baton::F32FromBF16(bits);
}

void Store(float value, cudaDataType_t type, int64_t element, void* to) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(to)[element] = value;
  } else {
    static_cast<uint16_t*>(to)[element] = type == CUDA_R_16F ? baton::F16FromF32(value) : baton::BF16FromF32(value);
  }
}

}  // namespace

size_t cublasLtGetVersion() { return 1; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t, cudaDataType_t) {
  *product = new cublasLtMatmulDescStandIn;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t,
                                              const void* value, size_t bytes) {
  if (bytes != sizeof(cublasOperation_t)) return CUBLAS_STATUS_INVALID_VALUE;
  product->transposed = *static_cast<const cublasOperation_t*>(value) == CUBLAS_OP_T;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  *layout = new cublasLtMatrixLayoutStandIn{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceStandIn;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = std::min(wanted, 2);
  for (int i = 0; i < *count; ++i) found[i] = {.algo = {b->columns, i > 0}, .workspaceSize = 0};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  *result = {.algo = *algorithm, .workspaceSize = 0};
  return algorithm->takes_others || algorithm->chosen_for_rows == b->columns ? CUBLAS_STATUS_SUCCESS
                                                                             : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t, cudaStream_t stream) {
  cublasLtMatmulHeuristicResult_t checked;
  const cublasStatus_t taken =
      cublasLtMatmulAlgoCheck(nullptr, product, a_layout, b_layout, nullptr, d_layout, algorithm, &checked);
  if (taken != CUBLAS_STATUS_SUCCESS) return taken;
  const bool plain = *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
  if (!plain || !product->transposed || a_layout->rows != b_layout->rows || a_layout->columns != d_layout->rows ||
      b_layout->columns != d_layout->columns) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto multiply = [=, a_of = *a_layout, b_of = *b_layout, d_of = *d_layout] {
    const auto inner = static_cast<int64_t>(a_of.rows);
    const auto columns = static_cast<int64_t>(d_of.columns);
    std::vector<float> wide_b(inner * columns), wide_a(inner);
    for (int64_t i = 0; i < inner * columns; ++i) wide_b[i] = Load(b, b_of.type, i / inner * b_of.leading + i % inner);
    for (int64_t row = 0; row < static_cast<int64_t>(d_of.rows); ++row) {
      for (int64_t k = 0; k < inner; ++k) wide_a[k] = Load(a, a_of.type, row * a_of.leading + k);
      for (int64_t column = 0; column < columns; ++column) {
        float sum = 0;
        for (int64_t k = 0; k < inner; ++k) sum = std::fma(wide_a[k], wide_b[column * inner + k], sum);
        Store(sum, d_of.type, column * d_of.leading + row, d);
      }
    }
  };
  // What algorithms are chosen for, unless a preference says otherwise.
  constexpr uintptr_t kAlignment = 256;
  for (const void* matrix : {a, b, static_cast<const void*>(d)}) {
    if (reinterpret_cast<uintptr_t>(matrix) % kAlignment != 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const cudaError_t error = baton::stand_in::Enqueue(stream, multiply, {a, b, d, workspace});
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
