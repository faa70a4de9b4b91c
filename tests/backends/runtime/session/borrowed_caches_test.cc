#include <gtest/gtest.h>

#include "backends/runtime/session/session_impl.h"

namespace moec {
namespace {

const std::vector<float> kFour = {1, 2, 3, 4};

manifest::Port port_of_four(const std::string& name) {
  manifest::Port port;
  port.name = name;
  port.dtype = DType::f32;
  port.dims = {1, 1, 2, 2};
  return port;
}

TEST(BorrowedCaches, ReturnWithoutCopying) {
  std::vector<float> cache = kFour;
  const float* const at = cache.data();
  NamedTensors tensors;
  {
    BorrowedCaches lent(tensors);
    tensors["k"] = lent.lend(port_of_four("k"), cache);
    EXPECT_TRUE(cache.empty());
    EXPECT_EQ(tensors["k"].data.data(), at);
    EXPECT_EQ(tensors["k"].type, port_of_four("k").type());
  }
  EXPECT_EQ(cache, kFour);
  EXPECT_EQ(cache.data(), at);
}

TEST(BorrowedCaches, ShareOneCacheBetweenTwoPorts) {
  std::vector<float> cache = kFour;
  NamedTensors tensors;
  {
    BorrowedCaches lent(tensors);
    tensors["a"] = lent.lend(port_of_four("a"), cache);
    tensors["b"] = lent.lend(port_of_four("b"), cache);
    EXPECT_EQ(tensors["a"].data, kFour);
    EXPECT_EQ(tensors["b"].data, kFour);
  }
  EXPECT_EQ(cache, kFour);
}

}  // namespace
}  // namespace moec
