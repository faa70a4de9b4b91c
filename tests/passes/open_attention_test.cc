// Attention whose core is outside of the shard: the ports that replace it have the values that the
// core needs.
#include <map>

#include "ir/graph/attention_ports.h"
#include "ir/graph/composite_operands.h"
#include "ir/graph/port_names.h"
#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

constexpr int64_t kOpenTokens = 3, kOpenHeads = 4, kOpenKvHeads = 2, kOpenCached = 5;

struct OpenCase {
  int64_t head_dim = 8, v_dim = 8;
  RopeStyle rope = RopeStyle::half;
  QkNorm qk_norm = QkNorm::per_head;
  Layout layout = Layout::rows;
  bool sinks = false;
};

Shard attention_shard(const OpenCase& c) {
  Builder b("L00.attn", Form::model);
  const auto tokens = [&](const char* name, int64_t channels) {
    return b.input(name, token_type(DType::f32, c.layout, channels, kOpenTokens));
  };
  const auto plain = [&](const char* name, Dims dims) {
    return b.input(name, {DType::f32, std::move(dims)});
  };
  const int64_t keys = kOpenCached + kOpenTokens,
                rotated = c.rope == RopeStyle::none ? 0 : c.head_dim;
  AttentionOperands<ValueId> in;
  in.q = tokens("q", kOpenHeads * c.head_dim);
  in.k = tokens("k", kOpenKvHeads * c.head_dim);
  in.v = tokens("v", kOpenKvHeads * c.v_dim);
  if (rotated > 0) in.rope_cos = plain("rope_cos", {kOpenTokens, rotated / 2});
  if (rotated > 0) in.rope_sin = plain("rope_sin", {kOpenTokens, rotated / 2});
  in.mask = plain(kMaskPort, {1, 1, kOpenTokens, keys});
  in.q_norm = plain("q_norm", {c.head_dim});
  in.k_norm = plain("k_norm", {c.head_dim});
  in.k_cache = plain(kKeyState, {1, kOpenKvHeads, kOpenCached, c.head_dim});
  in.v_cache = plain(kValueState, {1, kOpenKvHeads, kOpenCached, c.v_dim});
  if (c.sinks) in.sinks = plain("sinks", {kOpenHeads});
  const Attention op{.heads = kOpenHeads,
                     .kv_heads = kOpenKvHeads,
                     .head_dim = c.head_dim,
                     .scale = 0.4,
                     .qk_norm = c.qk_norm,
                     .eps = 1e-5,
                     .rope = c.rope,
                     .rope_dims = rotated,
                     .cache = CacheForm::append};
  const std::vector<ValueId> results = b.emit_all(op, operand_list(op, in, c.sinks), "attention");
  b.output("hidden", results[0]);
  b.output(kNewKeys, results[1]);
  b.output(kNewValues, results[2]);
  return b.finish();
}

// The core: attention without norms and rotation, whose queries are scaled.
Shard core_shard(const OpenCase& c) {
  Builder b("core", Form::model);
  const auto tokens = [&](const char* name, int64_t heads) {
    return b.input(name, token_type(DType::f32, Layout::rows, heads * c.head_dim, kOpenTokens));
  };
  AttentionOperands<ValueId> in;
  in.q = tokens(kOpenQueries, kOpenHeads);
  in.k = tokens(kNewKeys, kOpenKvHeads);
  in.v = tokens(kNewValues, kOpenKvHeads);
  in.mask = b.input(kOpenMask, {DType::f32, {1, 1, kOpenTokens, kOpenCached + kOpenTokens}});
  const Type cache{DType::f32, {1, kOpenKvHeads, kOpenCached, c.head_dim}};
  in.k_cache = b.input(kKeyState, cache);
  in.v_cache = b.input(kValueState, cache);
  if (c.sinks) in.sinks = b.input(kOpenSinks, {DType::f32, {kOpenHeads}});
  const Attention op{.heads = kOpenHeads,
                     .kv_heads = kOpenKvHeads,
                     .head_dim = c.head_dim,
                     .rope = RopeStyle::none,
                     .cache = CacheForm::append};
  b.output(kAttended, b.emit_all(op, operand_list(op, in, c.sinks))[0]);
  return b.finish();
}

// The values of a shard's inputs by name, and of its outputs.
using Values = std::map<std::string, Tensor>;

std::vector<Tensor> inputs_of(const Shard& shard, const Values& values) {
  std::vector<Tensor> inputs;
  for (ValueId input : shard.inputs) {
    inputs.push_back({shard.type(input), {}});
    const auto found = values.find(shard.values[input].name);
    if (found != values.end()) inputs.back().data = found->second.data;
    inputs.back().data.resize(static_cast<size_t>(shard.type(input).elements()));
  }
  return inputs;
}

void add_outputs(const Shard& shard, Values& values) {
  const std::vector<Tensor> outputs = outputs_of(shard, inputs_of(shard, values));
  ASSERT_EQ(outputs.size(), shard.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) values[shard.outputs[i].name] = outputs[i];
}

void expect_core_of(const OpenCase& c) {
  const Shard whole = attention_shard(c);
  const Shard open = run_passes(whole, "open_attention");
  EXPECT_EQ(count_ops<Attention>(open), 0u);
  Values values;
  const std::vector<Tensor> inputs = seeded_inputs(whole, 1);
  for (size_t i = 0; i < inputs.size(); ++i) values[whole.values[whole.inputs[i]].name] = inputs[i];
  const Tensor wanted = outputs_of(whole, inputs)[0];
  // The first evaluation gives the operands of the core, the second one its result to the shard.
  add_outputs(open, values);
  add_outputs(core_shard(c), values);
  add_outputs(open, values);
  EXPECT_LE(relative_l2(values["hidden"].data, wanted.data), 1e-6);
}

TEST(OpenAttention, PreservesValues) {
  for (const RopeStyle rope : {RopeStyle::none, RopeStyle::half, RopeStyle::interleaved})
    for (const QkNorm norm : {QkNorm::per_head, QkNorm::per_head_rotated, QkNorm::per_head_values})
      for (const bool sinks : {false, true})
        expect_core_of({.rope = rope, .qk_norm = norm, .sinks = sinks});
}

TEST(OpenAttention, KeepsAttentionThatNoOpComputes) {
  for (const OpenCase& c : {OpenCase{.head_dim = 12, .v_dim = 12}, OpenCase{.v_dim = 16},
                            OpenCase{.layout = Layout::channels}}) {
    const Shard shard = attention_shard(c);
    EXPECT_EQ(print(run_passes(shard, "open_attention")), print(shard));
  }
}

}  // namespace
}  // namespace moec
