#pragma once

// Runs a piece of a test once for every SIMD target that was compiled and that this machine has.

#include <gtest/gtest.h>

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace baton {

template <typename Body>
void ForEveryTarget(const Body& body) {
  const auto targets = hwy::SupportedAndGeneratedTargets();
  for (const int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace baton
