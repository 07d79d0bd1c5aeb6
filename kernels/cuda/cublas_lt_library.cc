// cuBLASLt's functions, each found in its library when it is first called. The library has half a gigabyte, and a
// program that computes on CPUs must start where it is not.

#include <cublasLt.h>

#include <string>

#include "common/base/dynamic_library.h"

namespace {

const baton::DynamicLibrary& Library() {
  static const baton::DynamicLibrary library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR),
                                             BATON_CUDA_LIBRARY_DIR);
  return library;
}

}  // namespace

#define BATON_FORWARD_STATUS(name, parameters, arguments) \
  BATON_FORWARD(cublasStatus_t, CUBLAS_STATUS_NOT_INITIALIZED, name, parameters, arguments)

BATON_FORWARD(size_t, 0, cublasLtGetVersion, (), ())
BATON_FORWARD_STATUS(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
BATON_FORWARD_STATUS(cublasLtDestroy, (cublasLtHandle_t handle), (handle))
BATON_FORWARD_STATUS(cublasLtMatmulDescCreate,
                     (cublasLtMatmulDesc_t * product, cublasComputeType_t compute, cudaDataType_t scale),
                     (product, compute, scale))
BATON_FORWARD_STATUS(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t product), (product))
BATON_FORWARD_STATUS(cublasLtMatmulDescSetAttribute,
                     (cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const void* value,
                      size_t bytes),
                     (product, attribute, value, bytes))
BATON_FORWARD_STATUS(cublasLtMatrixLayoutCreate,
                     (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns,
                      int64_t leading),
                     (layout, type, rows, columns, leading))
BATON_FORWARD_STATUS(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
BATON_FORWARD_STATUS(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference), (preference))
BATON_FORWARD_STATUS(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), (preference))
BATON_FORWARD_STATUS(cublasLtMatmulPreferenceSetAttribute,
                     (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                      const void* value, size_t bytes),
                     (preference, attribute, value, bytes))
BATON_FORWARD_STATUS(cublasLtMatmulAlgoGetHeuristic,
                     (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                      cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t found[],
                      int* count),
                     (handle, product, a, b, c, d, preference, wanted, found, count))
BATON_FORWARD_STATUS(cublasLtMatmulAlgoCheck,
                     (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                      const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result),
                     (handle, product, a, b, c, d, algorithm, result))
BATON_FORWARD_STATUS(cublasLtMatmul,
                     (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                      const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                      cudaStream_t stream),
                     (handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm,
                      workspace, workspace_bytes, stream))
