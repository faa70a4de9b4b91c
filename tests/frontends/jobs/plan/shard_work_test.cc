// Work that the engine does in one run of a shard, counted by hand.
#include "frontends/jobs/plan/shard_work.h"

#include <gmock/gmock.h>

#include <numeric>
#include <string>

#include "ir/text/text.h"

namespace moec {
namespace {

ShardWork work_of(const std::string& ops, const WorkSetting& setting = {}) {
  const auto shard = parse_shard("shard s static {\n" + ops + "}\n");
  EXPECT_TRUE(shard) << render(shard.error());
  return count_work(*shard, setting);
}

double elements(const ShardWork& work, ElementWork kind) {
  return at(work.elements, static_cast<size_t>(kind));
}

TEST(ShardWork, CountsProductsAndPorts) {
  const ShardWork work = work_of(
      "  input %x : f32[2,8]\n"
      "  %w = weight seeded(1):f32[4,8] : f32[4,8]\n"
      "  %turned = transpose %w {perm = [1, 0], layout = plain} : f32[8,4]\n"
      "  %h = matmul %x, %turned : f32[2,4]\n"
      "  %y = add %h, %h : f32[2,4]\n"
      "  output y = %y\n",
      {.tokens = 2});
  ASSERT_EQ(work.products.size(), 1u);
  EXPECT_TRUE(is_plain(work.products[0].encoding));
  EXPECT_EQ(work.products[0].inner, 8);
  EXPECT_EQ(work.products[0].weights, 32);
  EXPECT_EQ(work.products[0].bytes, 128);
  EXPECT_EQ(work.products[0].tokens, 2);
  EXPECT_EQ(work.products[0].times, 1);
  EXPECT_EQ(work.ops, 2) << "the product and the sum";
  EXPECT_EQ(work.idle_ops, 0);
  EXPECT_EQ(elements(work, ElementWork::arithmetic), 8);
  EXPECT_EQ(elements(work, ElementWork::move), 16 + 2 * 8) << "the input, twice the output";
  EXPECT_TRUE(work.activations.empty());
}

TEST(ShardWork, KeepsTheStorageOfWeights) {
  const ShardWork work = work_of(
      "  input %x : f32[1,32]\n"
      "  %w = weight seeded(1):f32[32,32] as affine(8; 32, 1) : f32[32,32]\n"
      "  %y = matmul %x, %w : f32[1,32]\n"
      "  output y = %y\n");
  ASSERT_EQ(work.products.size(), 1u);
  EXPECT_EQ(work.products[0].encoding, Encoding(AffineEncoding{8, {32, 1}}));
  EXPECT_EQ(work.products[0].bytes, 32 * 32 + 32 * 4);
}

TEST(ShardWork, CountsKindsOfElements) {
  const ShardWork work = work_of(
      "  input %x : f32[4,8]\n"
      "  %e = exp %x : f32[4,8]\n"
      "  %p = softmax %e {axis = 1} : f32[4,8]\n"
      "  %s = reduce_sum %p {axis = 1} : f32[4,1]\n"
      "  %t = transpose %x {perm = [1, 0], layout = plain} : f32[8,4]\n"
      "  %c = concat %t, %t {axis = 0} : f32[16,4]\n"
      "  output s = %s\n  output c = %c\n");
  EXPECT_EQ(elements(work, ElementWork::exponential), 64);
  EXPECT_EQ(elements(work, ElementWork::reduce), 32) << "the elements that are read";
  EXPECT_EQ(elements(work, ElementWork::transpose), 32);
  EXPECT_EQ(elements(work, ElementWork::move), 64 + 32 + 2 * (4 + 64));
  EXPECT_EQ(work.ops, 5);
}

// Two experts of two matrices, as exports have them.
std::string two_experts() {
  std::string text =
      "  input %x : f32[1,8]{rows}\n  input %routing : f32[1,2]{rows}\n"
      "  %zero = constant {type = f32[], values = [0]} : f32[]\n";
  for (const std::string e : {"0", "1"})
    text += "  %e" + e + ".up = weight seeded(1" + e + "):f32[8,8] : f32[8,8]\n" + "  %e" + e +
            ".h = matmul %x, %e" + e + ".up : f32[1,8]{rows}\n" + "  %e" + e +
            ".gate = slice %routing {axis = 1, begin = " + e + ", size = 1} : f32[1,1]{rows}\n" +
            "  %e" + e + ".routed = mul %e" + e + ".h, %e" + e + ".gate : f32[1,8]{rows}\n" +
            "  %e" + e + ".off = equal %e" + e + ".gate, %zero : bool[1,1]{rows}\n" + "  %e" + e +
            ".on = select %e" + e + ".off, %zero, %e" + e + ".routed : f32[1,8]{rows}\n" + "  %e" +
            e + ".down = weight seeded(2" + e + "):f32[8,8] : f32[8,8]\n" + "  %e" + e +
            ".out = matmul %e" + e + ".on, %e" + e + ".down : f32[1,8]{rows}\n";
  return text +
         "  %sum = add %e0.out, %e1.out : f32[1,8]{rows}\n"
         "  %y = add %sum, %x : f32[1,8]{rows}\n  output y = %y\n";
}

double executed_weights(const ShardWork& work) {
  return std::accumulate(
      work.products.begin(), work.products.end(), 0.0,
      [](double sum, const ProductWork& product) { return sum + product.times * product.weights; });
}

TEST(ShardWork, CountsExpertsByTheirChance) {
  const ShardWork all = work_of(two_experts());
  const ShardWork some = work_of(two_experts(), {.expert_chance = 0.25});
  EXPECT_EQ(executed_weights(all), 4 * 64);
  EXPECT_EQ(executed_weights(some), 64);
  // Per expert: two products, the guard and the slice of its weight; then their sum.
  EXPECT_EQ(all.ops, 2 * 4 + 1);
  EXPECT_EQ(some.ops, 0.25 * 2 * 4 + 1);
  EXPECT_EQ(some.idle_ops, 0);
  EXPECT_EQ(elements(all, ElementWork::arithmetic) - elements(some, ElementWork::arithmetic),
            0.75 * 2 * (8 + 1 + 8 + 8));
}

// Four heads on two heads of keys: three new tokens after a cache of five rows.
const char* const kAttention =
    "  input %q : f32[1,4,3,4]\n"
    "  input %attn_mask : f32[1,1,3,8]\n"
    "  input %k_state : f32[1,2,5,4]\n  input %v_state : f32[1,2,5,4]\n"
    "  input %k_new : f32[1,2,3,4]\n  input %v_new : f32[1,2,3,4]\n"
    "  %keys_all = concat %k_state, %k_new {axis = 2} : f32[1,2,8,4]\n"
    "  %values_all = concat %v_state, %v_new {axis = 2} : f32[1,2,8,4]\n"
    "  %keys = transpose %keys_all {perm = [0, 1, 3, 2], layout = plain} : f32[1,2,4,8]\n"
    "  %folded = reshape %q {dims = [1, 2, 6, 4], layout = plain} : f32[1,2,6,4]\n"
    "  %scores = matmul %folded, %keys : f32[1,2,6,8]\n"
    "  %by_head = reshape %scores {dims = [1, 4, 3, 8], layout = plain} : f32[1,4,3,8]\n"
    "  %masked = add %by_head, %attn_mask : f32[1,4,3,8]\n"
    "  %probs = softmax %masked {axis = 3} : f32[1,4,3,8]\n"
    "  %rows = reshape %probs {dims = [1, 2, 6, 8], layout = plain} : f32[1,2,6,8]\n"
    "  %context = matmul %rows, %values_all : f32[1,2,6,4]\n"
    "  output out = %context\n  output k_new = %k_new\n";

TEST(ShardWork, CountsOnlyVisibleKeys) {
  for (const double cached : {0.0, 2.0, 5.0}) {
    const ShardWork work = work_of(kAttention, {.tokens = 3, .cached_keys = cached});
    double macs = 0;
    for (const ShardWork::Activations& part : work.activations)
      macs += part.times * part.weights * part.tokens;
    const double keys = cached + 3;
    EXPECT_DOUBLE_EQ(macs, 2 * (4 * 3 * keys) * 4) << cached;
    EXPECT_DOUBLE_EQ(elements(work, ElementWork::exponential), 4 * 3 * keys) << cached;
    EXPECT_DOUBLE_EQ(elements(work, ElementWork::arithmetic), 4 * 3 * keys) << cached;
    EXPECT_EQ(elements(work, ElementWork::transpose), 0) << "the product reads the keys in place";
  }
}

}  // namespace
}  // namespace moec
