#include "backends/reference/code_form.h"

#include "backends/cpu/cpu_products.h"
#include "ir/text/text.h"
#include "tests/backends/reference/testing.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

WeightView codes(bool offsets) {
  return parse_view(offsets ? "@c:u8[256,256] | unpack(u8) | dequant(1, 32; splat(0.5):f32[256,8], "
                              "splat(3):f32[256,8])"
                            : "@c:u8[256,256] | unpack(u8) | dequant(1, 32; splat(0.5):f32[256,8])")
      .value();
}

TEST(CodeForm, NamesTheForm) {
  EXPECT_EQ(code_form(codes(false)), "u8 codes");
  EXPECT_EQ(code_form(codes(true)), "u8 codes with zero points");
  EXPECT_EQ(code_form(then(codes(false), PermuteStep{{1, 0}})), "u8 codes, transposed");
  EXPECT_EQ(code_form(concat_view(0, {codes(false), codes(false)})), "u8 codes");
  EXPECT_EQ(code_form(splat_view(7, {DType::f32, {256, 256}})), "");
}

// A sum has no kernel for codes.
TEST(CodeForm, ReportsWidenedWeights) {
  Builder build("L00.test", Form::model);
  const ValueId x = build.input("x", {DType::f32, {256, 256}});
  const ValueId w = build.weight(codes(false), "w");
  build.output("y", build.emit(Binary{BinaryFn::add}, {x, w}, "y"));
  const Shard shard = build.finish();
  const WeightTable weights = write_tensors(codes(false), "widened");
  const CpuProducts products(1, ActivationFormat::f32);
  const auto with = Executor::create(shard, weights, {.products = &products});
  const auto without = Executor::create(shard, weights, ExecutorOptions{});
  ASSERT_TRUE(with && without);
  const std::map<std::string, uint64_t> widened = {{"u8 codes", 256 * 256 * sizeof(float)}};
  EXPECT_EQ(with->memory().widened, widened);
  EXPECT_TRUE(without->memory().widened.empty()) << "the reference has no kernels";
}

}  // namespace
}  // namespace moec
