#include "frontends/nodes/expert_message.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace moec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExpertCall some_call() {
  return {2,
          "cpu f32 ",
          {{"layer2_experts0", "abc"}, {"layer2_experts1", "def ghi"}},
          {{"routing", {2, {0.25F, 0.75F, 1, 0}}},
           {"x", {3, {1, -0.0F, 1e-45F, std::numeric_limits<float>::max(), 3.14F, -7}}}}};
}

TEST(ExpertMessage, RoundTripsCalls) {
  const ExpertCall call = some_call();
  const auto parsed = parse_call(call_text(call));
  ASSERT_TRUE(parsed) << parsed.error().front().cause;
  EXPECT_EQ(parsed->layer, call.layer);
  EXPECT_EQ(parsed->numerics, call.numerics);
  EXPECT_EQ(parsed->shards, call.shards);
  ASSERT_EQ(parsed->inputs.size(), 2U);
  EXPECT_EQ(parsed->inputs.at("x").columns, 3);
  EXPECT_EQ(parsed->inputs.at("x").data, call.inputs.at("x").data);
  EXPECT_THAT(parsed->inputs.at("routing").data, ElementsAre(0.25F, 0.75F, 1, 0));
}

TEST(ExpertMessage, RoundTripsNonFiniteRows) {
  const Rows rows{1, {std::numeric_limits<float>::infinity(), -0.0F}};
  const auto parsed = parse_rows(rows_text(rows));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->data[0], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(parsed->data[1]));
}

TEST(ExpertMessage, RefusesEveryTruncation) {
  const std::string text = call_text(some_call());
  for (size_t size = 0; size < text.size(); ++size) {
    const auto parsed = parse_call(text.substr(0, size));
    ASSERT_FALSE(parsed) << size;
    EXPECT_EQ(parsed.error().front().code, "peers.bad_call");
  }
}

TEST(ExpertMessage, RefusesMoreBytesThanRows) {
  const auto parsed = parse_call(call_text(some_call()) + "x");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().front().cause, HasSubstr("more bytes"));
}

TEST(ExpertMessage, RefusesImpossibleSizes) {
  for (const char* size :
       {R"("columns": 0, "count": 1)", R"("columns": -1, "count": 1)",
        R"("columns": 1, "count": 0)", R"("columns": 4611686018427387904, "count": 4)",
        R"("columns": 2147483648, "count": 2147483648)"})
    EXPECT_FALSE(parse_rows(std::string("{") + size + "}\n")) << size;
}

}  // namespace
}  // namespace moec
