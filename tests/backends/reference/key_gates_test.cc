// Attention computed for the keys that a token sees.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/cpu_products.h"
#include "backends/reference/reference.h"
#include "ir/text/text.h"

namespace moec {
namespace {

constexpr float kUnread = std::numeric_limits<float>::quiet_NaN();
constexpr float kMasked = std::numeric_limits<float>::lowest();

// Attention of 4 heads on 2 heads of keys: 3 new tokens after a cache of 5 rows.
//   `keys`, `values`   ops that define %keys_all and %values_all [1,2,8,4]
//   `probs`            ops that define %probs from %masked, [1,4,3,8]
std::string attention(const std::string& keys, const std::string& probs,
                      const std::string& outputs = "") {
  return "shard s static {\n"
         "  input %q : f32[1,4,3,4]\n"
         "  input %attn_mask : f32[1,1,3,8]\n"
         "  input %k_cache : f32[1,2,5,4]\n  input %v_cache : f32[1,2,5,4]\n"
         "  input %k_new : f32[1,2,3,4]\n  input %v_new : f32[1,2,3,4]\n" +
         keys +
         "  %values_all = concat %v_cache, %v_new {axis = 2} : f32[1,2,8,4]\n"
         "  %keys = transpose %keys_all {perm = [0, 1, 3, 2], layout = plain} : f32[1,2,4,8]\n"
         "  %folded = reshape %q {dims = [1, 2, 6, 4], layout = plain} : f32[1,2,6,4]\n"
         "  %scores = matmul %folded, %keys : f32[1,2,6,8]\n"
         "  %by_head = reshape %scores {dims = [1, 4, 3, 8], layout = plain} : f32[1,4,3,8]\n"
         "  %masked = add %by_head, %attn_mask : f32[1,4,3,8]\n" +
         probs +
         "  %rows = reshape %probs {dims = [1, 2, 6, 8], layout = plain} : f32[1,2,6,8]\n"
         "  %context = matmul %rows, %values_all : f32[1,2,6,4]\n"
         "  output out = %context\n  output k = %k_new\n" +
         outputs + "}\n";
}

const std::string kJoined = "  %keys_all = concat %k_cache, %k_new {axis = 2} : f32[1,2,8,4]\n";
const std::string kSoftmax = "  %probs = softmax %masked {axis = 3} : f32[1,4,3,8]\n";
// With one more score per head that has no value.
const std::string kSinks =
    "  %sinks = constant {type = f32[1,4,1,1], values = [0.5, 1, -1, 2]} : f32[1,4,1,1]\n"
    "  %top = reduce_max %masked {axis = 3} : f32[1,4,3,1]\n"
    "  %largest = max %top, %sinks : f32[1,4,3,1]\n"
    "  %lowered = sub %masked, %largest : f32[1,4,3,8]\n"
    "  %raised = exp %lowered : f32[1,4,3,8]\n"
    "  %sum = reduce_sum %raised {axis = 3} : f32[1,4,3,1]\n"
    "  %sink = sub %sinks, %largest : f32[1,4,3,1]\n"
    "  %of_sink = exp %sink : f32[1,4,3,1]\n"
    "  %total = add %sum, %of_sink : f32[1,4,3,1]\n"
    "  %probs = div %raised, %total : f32[1,4,3,8]\n";
// Keys that are scaled and bounded before use, as some models do.
const std::string kScaled =
    "  %two = constant {type = f32[], values = [2]} : f32[]\n"
    "  %scaled = mul %k_cache, %two : f32[1,2,5,4]\n"
    "  %bounded = tanh %scaled : f32[1,2,5,4]\n"
    "  %keys_all = concat %bounded, %k_new {axis = 2} : f32[1,2,8,4]\n";

// Inputs whose tokens see the cache rows `seen` and the new tokens up to their own. The hidden rows
// of both caches are `hidden`.
std::vector<Tensor> inputs_of(const Shard& shard, const std::vector<int64_t>& seen, float hidden) {
  std::vector<Tensor> inputs = seeded_inputs(shard, 7);
  const auto sees = [&](int64_t key) {
    return std::find(seen.begin(), seen.end(), key) != seen.end();
  };
  for (int64_t token = 0; token < 3; ++token)
    for (int64_t key = 0; key < 8; ++key)
      inputs[1].data[static_cast<size_t>(token * 8 + key)] =
          (key < 5 ? sees(key) : key - 5 <= token) ? 0 : kMasked;
  for (const size_t cache : {2, 3})
    for (size_t i = 0; i < inputs[cache].data.size(); ++i)
      if (!sees(static_cast<int64_t>(i / 4 % 5))) inputs[cache].data[i] = hidden;
  return inputs;
}

std::vector<float> run(const Shard& shard, const std::vector<Tensor>& inputs,
                       const Products* products) {
  ExecutorOptions options;
  options.products = products;
  Executor executor = Executor::create(shard, WeightTable{}, options).value();
  return executor.run(inputs).value().front().data;
}

// Expects the context of the reference, also if the hidden rows of the caches have NaN: they are
// not read.
void expect_hidden_unread(const std::string& text) {
  const Shard shard = parse_shard(text).value();
  const CpuProducts products(1, ActivationFormat::f32);
  for (const std::vector<int64_t>& seen :
       {std::vector<int64_t>{}, {0}, {0, 1, 2}, {2, 3}, {0, 1, 2, 3, 4}}) {
    const std::vector<float> expected = run(shard, inputs_of(shard, seen, 0), nullptr);
    const std::vector<float> found = run(shard, inputs_of(shard, seen, kUnread), &products);
    EXPECT_THAT(found, testing::Pointwise(testing::FloatNear(1e-6f), expected)) << seen.size();
  }
}

TEST(KeyGates, SkipHiddenKeys) { expect_hidden_unread(attention(kJoined, kSoftmax)); }

TEST(KeyGates, SkipHiddenKeysWithSinks) { expect_hidden_unread(attention(kJoined, kSinks)); }

TEST(KeyGates, FollowKeysThroughElementwiseOps) {
  expect_hidden_unread(attention(kScaled, kSoftmax));
}

// Another output needs all keys; the probabilities still skip the hidden ones.
TEST(KeyGates, KeepSharedKeysWhole) {
  const Shard shard =
      parse_shard(attention(kJoined, kSoftmax, "  output all = %keys_all\n")).value();
  const CpuProducts products(1, ActivationFormat::f32);
  Executor executor =
      Executor::create(shard, WeightTable{}, ExecutorOptions{.products = &products}).value();
  const std::vector<Tensor> inputs = inputs_of(shard, {0, 1}, 3);
  const std::vector<Tensor> results = executor.run(inputs).value();
  const std::vector<float>& all = results.back().data;
  EXPECT_THAT(std::vector<float>(all.begin() + 8, all.begin() + 20), testing::Each(3.0f));
  EXPECT_THAT(results.front().data,
              testing::Pointwise(testing::FloatNear(1e-6f), run(shard, inputs, nullptr)));
}

// The sum of scores needs the keys that no token sees.
TEST(KeyGates, RequireProbabilities) {
  const std::string sum =
      "  %total = reduce_sum %masked {axis = 3} : f32[1,4,3,1]\n"
      "  %probs = div %masked, %total : f32[1,4,3,8]\n";
  const Shard shard = parse_shard(attention(kJoined, sum)).value();
  const CpuProducts products(1, ActivationFormat::f32);
  const std::vector<Tensor> inputs = inputs_of(shard, {0, 1}, kUnread);
  EXPECT_THAT(run(shard, inputs, &products), testing::Contains(testing::IsNan()));
}

// A token that sees no key gets the mean of all values.
TEST(KeyGates, KeepAllKeysForBlindTokens) {
  const Shard shard = parse_shard(attention(kJoined, kSoftmax)).value();
  const CpuProducts products(1, ActivationFormat::f32);
  std::vector<Tensor> inputs = inputs_of(shard, {0, 1}, 0.5f);
  std::fill_n(inputs[1].data.begin() + 8, 8, kMasked);
  EXPECT_THAT(run(shard, inputs, &products),
              testing::Pointwise(testing::FloatNear(1e-6f), run(shard, inputs, nullptr)));
}

// The rows of the scores are queries, which must not be skipped.
TEST(KeyGates, ComputeQueriesThatAreKeysWhole) {
  const Shard shard = parse_shard(
                          "shard s static {\n"
                          "  input %x : f32[1,1,8,4]\n"
                          "  input %attn_mask : f32[1,1,8,8]\n"
                          "  %keys = transpose %x {perm = [0, 1, 3, 2], layout = plain} "
                          ": f32[1,1,4,8]\n"
                          "  %scores = matmul %x, %keys : f32[1,1,8,8]\n"
                          "  %masked = add %scores, %attn_mask : f32[1,1,8,8]\n"
                          "  %probs = softmax %masked {axis = 3} : f32[1,1,8,8]\n"
                          "  %context = matmul %probs, %x : f32[1,1,8,4]\n"
                          "  output out = %context\n}\n")
                          .value();
  const CpuProducts products(1, ActivationFormat::f32);
  std::vector<Tensor> inputs = seeded_inputs(shard, 3);
  for (size_t i = 0; i < 64; ++i) inputs[1].data[i] = i % 8 < 5 ? 0 : kMasked;
  EXPECT_THAT(run(shard, inputs, &products),
              testing::Pointwise(testing::FloatNear(1e-6f), run(shard, inputs, nullptr)));
}

}  // namespace
}  // namespace moec
