// limit_channels, limit_fan_in, limit_extents, cast_to_select and hoist_state_writes: passes for
// targets with limits, with states or without casts.
#include "tests/passes/moe_shards.h"

namespace moec {
namespace {

// x + down(act(gate x) ∘ (up x)) with `inner` hidden channels.
Shard mlp_shard(Layout layout, int64_t inner, DType dtype = DType::f32) {
  Builder b("mlp", Form::model);
  ValueId x = b.input("hidden", token_type(dtype, layout, 10, 4));
  ValueId gate = seeded_weight(b, 1, dtype, {inner, 10}, 0.5, "gate");
  ValueId up = seeded_weight(b, 2, dtype, {inner, 10}, 0.5, "up");
  ValueId down = seeded_weight(b, 3, dtype, {10, inner}, 0.5, "down");
  b.output("mlp_out", b.add(x, b.emit(GatedMlp{}, {x, gate, up, down}, "mlp")));
  return b.finish();
}

int64_t most_channels(const Shard& shard) {
  int64_t most = 0;
  for (const Value& value : shard.values)
    if (value.type.layout != Layout::plain) most = std::max(most, channels_of(value.type));
  return most;
}

TEST(LimitChannels, LimitsWidthsAndPreservesResults) {
  for (Layout layout : {Layout::channels, Layout::bc1s})
    for (SumForm sum : {SumForm::chain, SumForm::tree})
      for (int64_t inner : {20, 21, 59}) {
        const Shard before = mlp_shard(layout, inner);
        const Shard after =
            run_default(before, {.target = {.sum = sum, .limits = {.channels = 20}}});
        EXPECT_LE(most_channels(after), 20);
        const auto parts = static_cast<size_t>((inner + 19) / 20);
        EXPECT_EQ(count_ops<Conv>(after), 3 * parts);
        EXPECT_EQ(count_ops<Slice>(after), 0u) << "weights are cut in their views";
        EXPECT_EQ(count_ops<Concat>(after), 0u);
        expect_same_values(before, after);
      }
}

TEST(LimitChannels, KeepsShardsWithinTheLimit) {
  const Shard shard = run_passes(mlp_shard(Layout::channels, 20), "lower_gated_mlp,linear_to_conv");
  PassContext context{{.target = {.limits = {.channels = 20}}}, {}};
  EXPECT_EQ(*limit_channels(shard, context), shard);
}

TEST(LimitChannels, NamesTheValueItCannotSplit) {
  Builder b("lm_head.0", Form::lowered);
  ValueId x = b.input("hidden", token_type(DType::f16, Layout::channels, 4, 2));
  b.output("logits", b.linear(x, seeded_weight(b, 1, DType::f16, {9, 4}, 1, "w"), "logits"));
  const Shard shard = run_passes(b.finish(), "linear_to_conv");
  PassContext context{{.target = {.name = "small", .limits = {.channels = 8}}}, {}};
  const auto result = limit_channels(shard, context);
  ASSERT_FALSE(result.has_value());
  const Diagnostic& finding = result.error().at(0);
  EXPECT_EQ(finding.code, "limit.unsplittable");
  EXPECT_EQ(finding.cause, "an output has 9 channels and cannot be split, target small supports 8");
  EXPECT_EQ(finding.place.shard, "lm_head.0");
  EXPECT_EQ(finding.place.op, "logits");
  EXPECT_NE(finding.next_step.find("--head-slices"), std::string::npos);
}

TEST(LimitChannels, RespectsTheLimitInBanks) {
  for (int64_t limit : {20, 45, 1000}) {
    const Shard before = group_shard({.experts = 7, .inner = 10}, Layout::channels, 0, 7);
    const Shard after =
        run_passes(before, "bank_experts", {.target = {.limits = {.channels = limit}}});
    EXPECT_LE(most_channels(after), std::max<int64_t>(limit, 12));
    const int64_t most = limit / 10, banks = (7 + most - 1) / most;
    EXPECT_EQ(count_ops<Linear>(after), static_cast<size_t>(3 * banks));
    expect_same_values(before, after);
  }
}

TEST(LimitFanIn, JoinsInTreesWithBoundedInputs) {
  for (int64_t parts : {2, 3, 4, 9, 10, 32})
    for (int64_t limit : {1, 2, 3, 12}) {
      Builder b("concat", Form::static_ops);
      ValueId x = b.input("x", {DType::f32, {2, parts}});
      std::vector<ValueId> columns;
      for (int64_t i = 0; i < parts; ++i) columns.push_back(b.slice(x, 1, parts - 1 - i, 1));
      b.output("y", b.concat(columns, 1));
      const Shard before = b.finish();
      const Shard after =
          run_passes(before, "limit_fan_in", {.target = {.limits = {.fan_in = limit}}});
      for (const Op& op : after.ops) {
        EXPECT_LE(op.operands.size(), static_cast<size_t>(std::max<int64_t>(2, limit)));
        if (std::holds_alternative<Concat>(op.data)) {
          EXPECT_GE(op.operands.size(), 2u) << "a concat of one part is none";
        }
      }
      expect_same_values(before, after, 0);
    }
}

TEST(LimitExtents, LimitsTheLastTwoAxes) {
  struct Sample {
    Dims dims;
    bool fits;
  };
  for (const Sample& sample :
       {Sample{{7}, false}, Sample{{6, 6}, true}, Sample{{7, 2}, false}, Sample{{2, 7}, false},
        Sample{{9, 9, 6, 6}, true}, Sample{{1, 1, 7, 1}, false}, Sample{{1, 1, 1, 7}, false}}) {
    Builder b("extents", Form::static_ops);
    b.output("y", b.unary(UnaryFn::exp, b.input("x", {DType::f16, sample.dims})));
    PassContext context{{.target = {.name = "small", .limits = {.extent = 6}}}, {}};
    const auto result = limit_extents(b.finish(), context);
    EXPECT_EQ(result.has_value(), sample.fits) << to_string(sample.dims);
    if (!result) {
      EXPECT_EQ(result.error().at(0).code, "limit.unsplittable");
      EXPECT_EQ(result.error().at(0).place.op, "x");
    }
  }
}

TEST(LimitExtents, IgnoresWeights) {
  Builder b("weights", Form::static_ops);
  ValueId x = b.input("x", token_type(DType::f16, Layout::channels, 4, 2));
  ValueId w = seeded_weight(b, 1, DType::f16, {9, 4, 1, 1}, 1);
  b.output("y", b.emit(Conv{}, {x, w, seeded_weight(b, 2, DType::f16, {9}, 1)}));
  PassContext context{{.target = {.limits = {.extent = 2}}}, {}};
  EXPECT_TRUE(limit_extents(b.finish(), context).has_value());
}

TEST(CastToSelect, RemovesCastsInAllRoutingForms) {
  const Router router{.top_k = 3,
                      .renorm = Renorm::sum,
                      .groups = 2,
                      .groups_kept = 1,
                      .group_score = GroupScore::top2_sum};
  for (Layout layout : kTokenLayouts)
    for (RoutingForm form : {RoutingForm::rank, RoutingForm::iterate, RoutingForm::host}) {
      const Shard before = moe_shard({}, layout, router, DType::f16);
      const Shard lowered = run_default(before, {.routing = form});
      const Shard after = run_passes(lowered, "cast_to_select");
      EXPECT_GT(count_ops<Cast>(lowered), 0u);
      EXPECT_EQ(count_ops<Cast>(after), 0u);
      expect_same_values(lowered, after, 0);
    }
}

std::vector<std::string> pass_names(const PassOptions& options) {
  std::vector<std::string> names;
  for (const Pass* pass : default_pipeline(options)) names.emplace_back(pass->name);
  return names;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(DefaultPipeline, ContainsThePassesTheTargetNeeds) {
  const char* const needed[] = {"cast_to_select",     "limit_channels",    "limit_fan_in",
                                "hoist_state_writes", "limit_extents",     "guard_activations",
                                "slice_in_blocks",    "merge_reciprocals", "bound_exponents"};
  const PassOptions all{.target = {.has_state = true,
                                   .limits = {.channels = 9,
                                              .extent = 9,
                                              .fan_in = 9,
                                              .no_casts = true,
                                              .no_reciprocals = true,
                                              .guarded = true,
                                              .exp_below = 9,
                                              .narrow_slice = 9}}};
  EXPECT_TRUE(check_pipeline(default_pipeline(all), Form::model).has_value());
  for (const char* name : needed) {
    EXPECT_TRUE(contains(pass_names(all), name)) << name;
    EXPECT_FALSE(contains(pass_names({}), name)) << name;
  }
}

TEST(HoistStateWrites, MovesWritesAfterTheirProducers) {
  for (AttentionForm form : {AttentionForm::batched, AttentionForm::per_head}) {
    Builder b("L00.attn", Form::model);
    auto tokens = [&](const char* name, int64_t channels) {
      return b.input(name, token_type(DType::f32, Layout::channels, channels, 2));
    };
    std::vector<ValueId> operands = {tokens("q", 16), tokens("k", 8), tokens("v", 8)};
    operands.push_back(b.input("attn_mask", {DType::f32, {1, 1, 2, 6}}));
    ValueId write_mask = b.input("kv_write_mask", {DType::f32, {1, 1, 6, 2}});
    for (const char* state : {"k_state", "v_state"}) b.state(state, {DType::f32, {1, 2, 6, 4}});
    for (const char* state : {"k_state", "v_state"})
      operands.push_back(b.emit(StateRead{state}, {}));
    operands.push_back(write_mask);
    const Attention op{.heads = 4,
                       .kv_heads = 2,
                       .head_dim = 4,
                       .rope = RopeStyle::none,
                       .cache = CacheForm::blend};
    const std::vector<ValueId> results = b.emit_all(op, operands, "attention");
    b.output("out", results[0]);
    b.emit_all(StateWrite{"k_state"}, {results[1]});
    b.emit_all(StateWrite{"v_state"}, {results[2]});
    const Shard before = b.finish();
    const Shard after = run_default(before, {.attention = form, .target = {.has_state = true}});
    size_t writes = 0;
    for (OpId id : op_ids(after)) {
      if (!std::holds_alternative<StateWrite>(after.ops[id].data)) continue;
      ++writes;
      EXPECT_EQ(after.values[after.ops[id].operands[0]].producer.index + 1, id.index);
    }
    EXPECT_EQ(writes, 2u);
    expect_same_values(before, after);
  }
}

}  // namespace
}  // namespace moec
