// fold_weight_views, fold_constants, eliminate_common, eliminate_dead.
#include <functional>
#include <random>

#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

// ---- fold_weight_views -------------------------------------------------------------------------

TEST(FoldWeightViews, FoldsEveryShapeOp) {
  Builder b("views", Form::static_ops);
  ValueId x = b.input("x", {DType::f16, {4, 3}});
  ValueId w = seeded_weight(b, 1, DType::f32, {6, 4}, 1, "w");
  ValueId v = seeded_weight(b, 2, DType::f32, {2, 4}, 1, "v");
  ValueId joined = b.concat({b.slice(w, 0, 1, 4), v}, 0);
  ValueId turned = b.transpose(b.reshape(joined, {8, 3}), {1, 0});
  b.output("y", b.mul(x, b.slice(b.transpose(b.cast(turned, DType::f16), {1, 0}), 0, 2, 4)));
  const Shard before = b.finish();
  const Shard after = run_passes(before, "fold_weight_views");
  EXPECT_EQ(after.ops.size(), 2u) << print(after);
  expect_same_values(before, after, 0);
}

TEST(FoldWeightViews, KeepsNamesOfReshapedWeights) {
  Builder b("names", Form::static_ops);
  ValueId w = seeded_weight(b, 1, DType::f32, {4, 3}, 1, "experts.3.gate");
  b.output("y", b.reshape(w, {4, 3, 1, 1}));
  const Shard after = run_passes(b.finish(), "fold_weight_views");
  ASSERT_EQ(after.ops.size(), 1u);
  EXPECT_EQ(after.values[after.outputs[0].value].name, "experts.3.gate");
}

TEST(FoldWeightViews, KeepsWeightsWithOtherUses) {
  Builder b("both", Form::static_ops);
  ValueId w = seeded_weight(b, 1, DType::f32, {4, 3}, 1, "w");
  b.output("y", b.transpose(w, {1, 0}));
  b.output("z", w);
  const Shard before = b.finish();
  const Shard after = run_passes(before, "fold_weight_views");
  EXPECT_EQ(count_ops<Weight>(after), 2u);
  EXPECT_EQ(after.ops.size(), 2u);
  expect_same_values(before, after, 0);
}

TEST(FoldWeightViews, KeepsReshapesThatSetALayout) {
  Builder b("token", Form::static_ops);
  ValueId w = seeded_weight(b, 1, DType::f32, {4, 3}, 1, "w");
  b.output("y", b.reshape(w, {4, 3}, Layout::rows));
  const Shard before = b.finish();
  const Shard after = run_passes(before, "fold_weight_views");
  EXPECT_EQ(count_ops<Reshape>(after), 1u) << "a view has no layout";
  expect_same_values(before, after, 0);
}

// ---- fold_constants ----------------------------------------------------------------------------

Shard constant_shard(const std::function<ValueId(Builder&, ValueId)>& result) {
  Builder b("constants", Form::static_ops);
  ValueId x = b.input("x", {DType::f32, {2, 1, 3}});
  b.output("y", result(b, x));
  return b.finish();
}

Shard folded(const Shard& before) {
  Shard after = run_passes(before, "fold_constants,eliminate_dead");
  expect_same_values(before, after, 0);
  return after;
}

TEST(FoldConstants, EvaluatesEveryElementwiseOp) {
  for (size_t fn = 0; fn < enum_names(UnaryFn{}).size(); ++fn) {
    const Shard after = folded(constant_shard([&](Builder& b, ValueId) {
      return b.unary(static_cast<UnaryFn>(fn), b.constant({DType::f32, {3}}, {0.1, 0.7, 3}));
    }));
    EXPECT_EQ(after.ops.size(), 1u) << print(after);
  }
  for (size_t fn = 0; fn < enum_names(BinaryFn{}).size(); ++fn) {
    const Shard after = folded(constant_shard([&](Builder& b, ValueId) {
      ValueId row = b.constant({DType::f16, {1, 3}}, {0.1, -7, 1e3});
      ValueId column = b.constant({DType::f16, {2, 1}}, {3, -0.3});
      return b.binary(static_cast<BinaryFn>(fn), row, column);
    }));
    EXPECT_EQ(after.ops.size(), 1u) << print(after);
  }
}

TEST(FoldConstants, EvaluatesCompareSelectAndCast) {
  for (DType dtype : {DType::f32, DType::i64})
    for (size_t fn = 0; fn < enum_names(CompareFn{}).size(); ++fn) {
      const Shard after = folded(constant_shard([&](Builder& b, ValueId) {
        ValueId row = b.constant({dtype, {1, 3}}, {1, 2, 3});
        ValueId column = b.constant({dtype, {3, 1}}, {1, 2, 3});
        ValueId holds = b.compare(static_cast<CompareFn>(fn), row, column);
        ValueId values = b.constant({DType::f32, {1, 3}}, {5, 6, 7});
        return b.add(b.cast(holds, DType::f32), b.select(holds, values, b.scalar_like(values, 9)));
      }));
      EXPECT_EQ(after.ops.size(), 1u) << print(after);
    }
}

TEST(FoldConstants, EvaluatesShapeOps) {
  const Shard after = folded(constant_shard([](Builder& b, ValueId) {
    std::vector<double> values;
    for (int i = 0; i < 24; ++i) values.push_back(i + 1);
    ValueId c = b.constant({DType::f32, {2, 3, 4}}, values);
    ValueId turned = b.transpose(c, {2, 0, 1});
    ValueId splat = b.transpose(b.constant({DType::f32, {2, 4, 1}}, {9}), {1, 0, 2});
    return b.reshape(b.slice(b.concat({turned, splat}, 2), 0, 1, 2), {4, 4});
  }));
  EXPECT_EQ(after.ops.size(), 1u) << print(after);
}

TEST(FoldConstants, KeepsLargeResults) {
  const Shard after = folded(constant_shard([](Builder& b, ValueId) {
    std::vector<double> values;
    for (int i = 0; i < 65; ++i) values.push_back(i);
    return b.cast(b.compare(CompareFn::less, b.constant({DType::f32, {65, 1}}, values),
                            b.constant({DType::f32, {1, 65}}, values)),
                  DType::f32);
  }));
  EXPECT_EQ(count_ops<Compare>(after), 1u) << "65 · 65 is more than 4096";
}

struct Identity {
  const char* what;
  std::function<ValueId(Builder&, ValueId)> result;
  size_t ops_left;
};

TEST(FoldConstants, RemovesIdentityOps) {
  const Identity identities[] = {
      {"x + 0", [](Builder& b, ValueId x) { return b.add(x, b.scalar_like(x, 0)); }, 0},
      {"0 + x", [](Builder& b, ValueId x) { return b.add(b.scalar_like(x, 0), x); }, 0},
      {"x - 0", [](Builder& b, ValueId x) { return b.sub(x, b.scalar_like(x, 0)); }, 0},
      {"0 - x", [](Builder& b, ValueId x) { return b.sub(b.scalar_like(x, 0), x); }, 2},
      {"x * 1", [](Builder& b, ValueId x) { return b.mul(x, b.scalar_like(x, 1)); }, 0},
      {"1 * x", [](Builder& b, ValueId x) { return b.mul(b.scalar_like(x, 1), x); }, 0},
      {"x / 1", [](Builder& b, ValueId x) { return b.div(x, b.scalar_like(x, 1)); }, 0},
      {"1 / x", [](Builder& b, ValueId x) { return b.div(b.scalar_like(x, 1), x); }, 2},
      {"x + zeros that broadcast",
       [](Builder& b, ValueId x) {
         return b.add(x, b.constant({DType::f32, {2, 4, 3}}, {0}));
       },
       2},
      {"cast to its type", [](Builder& b, ValueId x) { return b.cast(x, DType::f32); }, 0},
      {"slice of all", [](Builder& b, ValueId x) { return b.slice(x, 2, 0, 3); }, 0},
      {"slice of a part", [](Builder& b, ValueId x) { return b.slice(x, 2, 1, 2); }, 1},
      {"concat of one", [](Builder& b, ValueId x) { return b.concat({x}, 1); }, 0},
      {"reshape to its sizes",
       [](Builder& b, ValueId x) {
         return b.reshape(x, {2, 1, 3});
       },
       0},
      {"reshape there and back",
       [](Builder& b, ValueId x) {
         return b.reshape(b.reshape(x, {6}), {2, 1, 3});
       },
       0},
      {"reshape of a reshape",
       [](Builder& b, ValueId x) {
         return b.reshape(b.reshape(x, {6}), {3, 2});
       },
       1},
      {"transpose by nothing",
       [](Builder& b, ValueId x) {
         return b.transpose(x, {0, 1, 2});
       },
       0},
      {"transpose there and back",
       [](Builder& b, ValueId x) {
         return b.transpose(b.transpose(x, {2, 0, 1}), {1, 2, 0});
       },
       0},
      {"transpose of a transpose",
       [](Builder& b, ValueId x) {
         return b.transpose(b.transpose(x, {2, 1, 0}), {1, 0, 2});
       },
       1},
      {"transpose of ones, reshaped back",
       [](Builder& b, ValueId x) {
         return b.reshape(b.transpose(x, {1, 0, 2}), {2, 1, 3});
       },
       0},
  };
  for (const Identity& identity : identities) {
    SCOPED_TRACE(identity.what);
    const Shard after = folded(constant_shard(identity.result));
    EXPECT_EQ(after.ops.size(), identity.ops_left) << print(after);
  }
}

TEST(FoldConstants, ReplacesUnitAxisTransposesByReshapes) {
  const Shard after = folded(constant_shard([](Builder& b, ValueId x) {
    return b.transpose(x, {1, 0, 2});
  }));
  EXPECT_EQ(count_ops<Transpose>(after), 0u);
  EXPECT_EQ(count_ops<Reshape>(after), 1u);
}

TEST(FoldConstants, KeepsTheLayoutOfAReshape) {
  Builder b("layout", Form::static_ops);
  ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 3, 2));
  b.output("y", b.reshape(x, {2, 3}));
  const Shard after = run_passes(b.finish(), "fold_constants");
  EXPECT_EQ(after.type(after.outputs[0].value).layout, Layout::plain);
}

// ---- eliminate_common --------------------------------------------------------------------------

TEST(EliminateCommon, KeepsTheFirstOfEqualOps) {
  Builder b("common", Form::static_ops);
  ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 3, 2));
  auto product = [&] {
    ValueId w = seeded_weight(b, 1, DType::f32, {3, 4}, 1, "w");
    return b.mul(b.matmul(x, w), b.constant({DType::f32, {}}, {2}));
  };
  ValueId first = product(), second = product();
  b.output("y", b.add(first, second));
  b.output("z", second);
  const Shard before = b.finish();
  const Shard after = run_passes(before, "eliminate_common");
  EXPECT_EQ(after.ops.size(), 5u) << print(after);
  expect_same_values(before, after, 0);
}

TEST(EliminateCommon, KeepsOpsThatDiffer) {
  Builder b("apart", Form::static_ops);
  ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 3, 2));
  ValueId y = b.input("y", token_type(DType::f32, Layout::rows, 3, 2));
  b.output("a", b.sub(x, y));
  b.output("b", b.sub(y, x));
  b.output("c", b.add(x, y));
  b.output("d", b.slice(x, 1, 0, 1));
  b.output("e", b.slice(x, 1, 1, 1));
  b.output("f", b.add(seeded_weight(b, 1, DType::f32, {2, 3}, 1), x));
  b.output("g", b.add(seeded_weight(b, 2, DType::f32, {2, 3}, 1), x));
  const Shard before = b.finish();
  const Shard after = run_passes(before, "eliminate_common");
  EXPECT_EQ(after.ops.size(), before.ops.size());
  expect_same_values(before, after, 0);
}

TEST(EliminateCommon, MergesBothResultsOfTopk) {
  Builder b("topk", Form::static_ops);
  ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 5, 2));
  auto first = b.emit_all(TopK{2, 1}, {x}, "a");
  auto second = b.emit_all(TopK{2, 1}, {x}, "b");
  b.output("values", second[0]);
  b.output("indices", second[1]);
  const Shard before = b.finish();
  const Shard after = run_passes(before, "eliminate_common");
  EXPECT_EQ(after.ops.size(), 1u);
  expect_same_values(before, after, 0);
}

// ---- eliminate_dead ----------------------------------------------------------------------------

TEST(EliminateDead, RemovesUnusedOps) {
  Builder b("dead", Form::static_ops);
  ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 3, 2));
  b.input("unused", {DType::f32, {1}});
  ValueId dead = b.unary(UnaryFn::exp, x);
  b.mul(dead, dead);
  b.output("y", b.unary(UnaryFn::neg, x));
  const Shard before = b.finish();
  const Shard after = run_passes(before, "eliminate_dead");
  EXPECT_EQ(after.ops.size(), 1u);
  EXPECT_EQ(after.inputs.size(), 2u) << "inputs are the interface";
  expect_same_values(before, after, 0);
}

TEST(EliminateDead, KeepsOpsThatAStateUses) {
  Builder b("state", Form::static_ops);
  b.state("k_state", {DType::f32, {2}});
  ValueId x = b.input("x", {DType::f32, {2}});
  ValueId sum = b.add(b.emit(StateRead{"k_state"}, {}), x);
  b.emit_all(StateWrite{"k_state"}, {sum});
  b.output("y", x);
  EXPECT_EQ(run_passes(b.finish(), "eliminate_dead").ops.size(), 3u);
}

}  // namespace
}  // namespace moec
