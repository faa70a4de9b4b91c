#include "backends/reference/weight_products.h"

#include <gmock/gmock.h>

#include "backends/cpu/cpu_products.h"
#include "backends/reference/program.h"
#include "ir/text/text.h"

namespace moec {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Two products of x, then one of the first result, in the form of an export for ONNX.
const std::string kOfRows =
    "shard s static {\n"
    "  input %x : f32[1,24]{rows}\n"
    "  %q.w = weight seeded(1):f32[24,40] : f32[24,40]\n"
    "  %k.w = weight seeded(2):f32[24,16] : f32[24,16]\n"
    "  %o.w = weight seeded(3):f32[1,40,24] : f32[1,40,24]\n"
    "  %q = matmul %x, %q.w : f32[1,40]{rows}\n"
    "  %heads = reshape %q {dims = [1, 1, 40], layout = plain} : f32[1,1,40]\n"
    "  %k = matmul %x, %k.w : f32[1,16]{rows}\n"
    "  %o = matmul %heads, %o.w : f32[1,1,24]\n"
    "  %o.rows = reshape %o {dims = [1, 24], layout = rows} : f32[1,24]{rows}\n"
    "  %y = add %x, %o.rows : f32[1,24]{rows}\n"
    "  output y = %y\n  output k = %k\n";

const std::string kOfChannels =
    "shard s static {\n"
    "  input %x : f32[1,24,1,1]{channels}\n"
    "  %a.w = weight seeded(1):f32[40,24,1,1] : f32[40,24,1,1]\n"
    "  %b.w = weight seeded(2):f32[16,24,1,1] : f32[16,24,1,1]\n"
    "  %a = conv %x, %a.w {groups = 1} : f32[1,40,1,1]{channels}\n"
    "  %b = conv %x, %b.w {groups = 1} : f32[1,16,1,1]{channels}\n"
    "  output a = %a\n  output b = %b\n}\n";

Program load_with_products(const std::string& text) {
  static const CpuProducts products(2, ActivationFormat::f32);
  const WeightReader weights = WeightReader::open(WeightTable{}).value();
  return load_program(parse_shard(text).value(), weights, {.products = &products}).value();
}

// A probe of values makes a run compute each op.
void expect_same_bits(const std::string& text) {
  Program program = load_with_products(text);
  const std::vector<Tensor> inputs = seeded_inputs(program.shard, 7);
  std::vector<const Tensor*> lent;
  for (const Tensor& input : inputs) lent.push_back(&input);
  const auto together = run_program(program, lent, {});
  EXPECT_EQ(together.value(),
            run_program(program, lent, {.values = [](std::string_view, const Tensor&) {}}).value());
  EXPECT_EQ(together.value(), run_program(program, lent, {}).value());
}

TEST(WeightProducts, OfOneTokenRunTogether) {
  const Program rows = load_with_products(kOfRows + "}\n"),
                channels = load_with_products(kOfChannels);
  EXPECT_THAT(rows.runs.products, testing::ElementsAre(SizeIs(2), SizeIs(1)));
  EXPECT_THAT(rows.runs.plain.steps, SizeIs(3));  // no reshapes
  EXPECT_THAT(channels.runs.products, testing::ElementsAre(SizeIs(2)));
  expect_same_bits(kOfRows + "}\n");
  expect_same_bits(kOfChannels);
}

TEST(WeightProducts, KeepReshapesThatOthersRead) {
  const std::string text = kOfRows + "  output heads = %heads\n  output o = %o\n}\n";
  EXPECT_THAT(load_with_products(text).runs.plain.steps, SizeIs(4));
  expect_same_bits(text);
}

TEST(WeightProducts, StaySingleForSeveralTokens) {
  std::string text = kOfChannels;
  for (size_t at = 0; (at = text.find(",1,1]{", at)) != std::string::npos;)
    text.replace(at, 5, ",2,1]");
  EXPECT_THAT(load_with_products(text).runs.products, IsEmpty());
  expect_same_bits(text);
}

}  // namespace
}  // namespace moec
