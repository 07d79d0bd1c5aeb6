#pragma once

// Benchmarks only: BATON_BENCH_TARGETS=AVX2 (AVX3 is AVX-512) measures that SIMD target on a machine that has better.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace baton {

inline void KeepToSimdTargetOfEnvironment() {
  const char* wanted = std::getenv("BATON_BENCH_TARGETS");
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (wanted != nullptr && std::string_view(wanted) == hwy::TargetName(target)) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      std::printf("SIMD target %s\n", wanted);
      return;
    }
  }
  if (wanted != nullptr) std::printf("SIMD target %s is not on this machine\n", wanted);
}

}  // namespace baton
