// The rules of targets/ort-genai.json. Each rule has one shard that breaks it and one that keeps
// it.
#include <gmock/gmock.h>

#include "backends/targets/load_target.h"
#include "tests/backends/targets/rule_samples.h"

namespace moec {
namespace {

std::function<RuleSample(bool)> rooted_in(DType broken) {
  return [=](bool breaks) {
    return of_input({breaks ? broken : DType::f32, {3, 64}},
                    [](Builder& b, ValueId x) { return b.unary(UnaryFn::sqrt, x); });
  };
}

// f8_e4m3 is a storage type, without arithmetic.
RuleSample stored_in_bytes(bool breaks) {
  return of_input({breaks ? DType::f8_e4m3 : DType::u8, {3, 64}}, [](Builder& b, ValueId x) {
    return b.reshape(x, {64, 3});
  });
}

TEST(OrtGenaiRules, FlagOnlyTheirBreakingSamples) {
  expect_samples_break_their_rules(builtin_target("ort-genai").value(),
                                   {{"J1", read_state_or_port},
                                    {"J2", stored_in_bytes},
                                    {"J3", rooted_in(DType::bf16)},
                                    {"J4", rooted_in(DType::f16)}});
}

TEST(OrtGenaiTarget, WritesDecoderOfRows) {
  const Target target = builtin_target("ort-genai").value();
  EXPECT_TRUE(target.engine.decoder_graph);
  EXPECT_EQ(target.projection, ProjectionForm::matmul);
  EXPECT_FALSE(builtin_target("onnx").value().engine.decoder_graph);
}

}  // namespace
}  // namespace moec
