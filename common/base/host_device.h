#pragma once

// For arithmetic whose bits a device must repeat: one text, compiled for the host and, in .cu files, for the device.
// What is so marked uses only what both compilers have (of the standard library, constexpr functions), and its
// floating-point operations are neither contracted nor reordered on either side.

#if defined(__CUDACC__)
#define BATON_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define BATON_HOST_DEVICE inline
#endif
