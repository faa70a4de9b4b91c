// Runs a test for each kind of vectors that this CPU has, not only for the widest.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

namespace moec {

template <class Test>
void for_each_vector_target(const Test& test) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    // The next kernel chooses again.
    hwy::GetChosenTarget().DeInit();
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace moec
