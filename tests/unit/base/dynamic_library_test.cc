#include "common/base/dynamic_library.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(DynamicLibrary, FindsWhatTheLibraryHas) {
  const DynamicLibrary library("libm.so.6", "");
  const auto floor = library.Find<double(double)>("floor");
  ASSERT_NE(floor, nullptr);
  EXPECT_EQ(floor(2.5), 2);
  EXPECT_EQ(library.Find<void()>("no_such_function"), nullptr);
}

TEST(DynamicLibrary, OneThatIsNotThereHasNothing) {
  const DynamicLibrary library("libnothing.so.1", "/nowhere");
  EXPECT_EQ(library.Find<void()>("floor"), nullptr);
}

}  // namespace
}  // namespace baton
