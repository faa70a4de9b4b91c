// KeyGates tests (key_gates_test.cc) compare the results with the reference.
#include "backends/reference/attention_core.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace moec {
namespace {

// Attention of 4 heads on 2 heads of keys, for `tokens` new tokens after a cache of 5 rows.
// `scores` defines %masked from %by_head.
std::string attention(int tokens, const std::string& scores, const std::string& outputs = "") {
  const int keys = 5 + tokens, rows = 2 * tokens;
  return fmt::format(
      "shard s static {{\n"
      "  input %q : f32[1,4,{0},4]\n  input %attn_mask : f32[1,1,{0},{1}]\n"
      "  input %k_cache : f32[1,2,5,4]\n  input %v_cache : f32[1,2,5,4]\n"
      "  input %k_new : f32[1,2,{0},4]\n  input %v_new : f32[1,2,{0},4]\n"
      "  %keys_all = concat %k_cache, %k_new {{axis = 2}} : f32[1,2,{1},4]\n"
      "  %values_all = concat %v_cache, %v_new {{axis = 2}} : f32[1,2,{1},4]\n"
      "  %keys = transpose %keys_all {{perm = [0, 1, 3, 2], layout = plain}} : f32[1,2,4,{1}]\n"
      "  %folded = reshape %q {{dims = [1, 2, {2}, 4], layout = plain}} : f32[1,2,{2},4]\n"
      "  %products = matmul %folded, %keys : f32[1,2,{2},{1}]\n"
      "  %by_head = reshape %products {{dims = [1, 4, {0}, {1}], layout = plain}} : "
      "f32[1,4,{0},{1}]\n"
      "{3}"
      "  %probs = softmax %masked {{axis = 3}} : f32[1,4,{0},{1}]\n"
      "  %rows = reshape %probs {{dims = [1, 2, {2}, {1}], layout = plain}} : f32[1,2,{2},{1}]\n"
      "  %context = matmul %rows, %values_all : f32[1,2,{2},4]\n"
      "  output out = %context\n{4}}}\n",
      tokens, keys, rows, scores, outputs);
}

std::string masked(int tokens) {
  return fmt::format("  %masked = add %by_head, %attn_mask : f32[1,4,{},{}]\n", tokens, 5 + tokens);
}

std::optional<AttentionCore> core_of(const std::string& text) {
  const Shard shard = parse_shard(text).value();
  const Gates gates = find_gates(shard, IdMap<ValueId, uint8_t>(shard.values.size()));
  return gates.gates.empty() ? std::nullopt : find_attention_core(shard, gates, 0);
}

TEST(AttentionCore, FindsTheCoreOfAnyTokens) {
  for (const int tokens : {1, 2, 64}) EXPECT_TRUE(core_of(attention(tokens, masked(tokens))));
}

// A soft cap and an output of the keys leave single ops.
TEST(AttentionCore, RejectsOtherParts) {
  const std::string capped =
      "  %two = constant {type = f32[], values = [2]} : f32[]\n"
      "  %halved = div %by_head, %two : f32[1,4,1,6]\n"
      "  %capped = tanh %halved : f32[1,4,1,6]\n"
      "  %masked = add %capped, %attn_mask : f32[1,4,1,6]\n";
  EXPECT_FALSE(core_of(attention(1, capped)));
  EXPECT_FALSE(core_of(attention(1, masked(1), "  output all = %keys_all\n")));
}

// One row of scores per head, which the mask of two tokens expands to two.
TEST(AttentionCore, RejectsExpandedScores) {
  EXPECT_FALSE(core_of(
      "shard s static {\n"
      "  input %folded : f32[1,2,2,4]\n  input %attn_mask : f32[1,1,2,7]\n"
      "  input %k_cache : f32[1,2,5,4]\n  input %v_cache : f32[1,2,5,4]\n"
      "  input %k_new : f32[1,2,2,4]\n  input %v_new : f32[1,2,2,4]\n"
      "  %keys_all = concat %k_cache, %k_new {axis = 2} : f32[1,2,7,4]\n"
      "  %values_all = concat %v_cache, %v_new {axis = 2} : f32[1,2,7,4]\n"
      "  %keys = transpose %keys_all {perm = [0, 1, 3, 2], layout = plain} : f32[1,2,4,7]\n"
      "  %products = matmul %folded, %keys : f32[1,2,2,7]\n"
      "  %by_head = reshape %products {dims = [1, 4, 1, 7], layout = plain} : f32[1,4,1,7]\n"
      "  %masked = add %by_head, %attn_mask : f32[1,4,2,7]\n"
      "  %probs = softmax %masked {axis = 3} : f32[1,4,2,7]\n"
      "  %rows = reshape %probs {dims = [1, 2, 4, 7], layout = plain} : f32[1,2,4,7]\n"
      "  %context = matmul %rows, %values_all : f32[1,2,4,4]\n"
      "  output out = %context\n}\n"));
}

}  // namespace
}  // namespace moec
