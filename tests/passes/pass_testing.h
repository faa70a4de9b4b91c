// Helpers for pass tests: seeded shards, runs of named passes, and value comparison.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "backends/reference/reference.h"
#include "ir/graph/builder.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

namespace moec {

// A weight of seeded values in [-scale, scale).
inline ValueId seeded_weight(Builder& b, uint64_t seed, DType dtype, Dims dims, double scale,
                             std::string name = {}) {
  WeightView view = then(seeded_view(seed, {DType::f32, std::move(dims)}), ScaleStep{scale});
  return b.weight(then(std::move(view), CastStep{dtype}), std::move(name));
}

// Runs the named, comma-separated passes with run_pipeline() and its verifier.
inline Shard run_passes(const Shard& shard, std::string_view names, PassContext& context) {
  auto passes = parse_pipeline(names);
  EXPECT_TRUE(passes.has_value()) << names;
  auto result = run_pipeline(shard, *passes, context, {.dump_dir = testing::TempDir()});
  EXPECT_TRUE(result.has_value()) << render(result.error());
  return result ? result->shard : shard;
}

inline Shard run_passes(const Shard& shard, std::string_view names, PassOptions options = {}) {
  PassContext context{std::move(options), {}};
  return run_passes(shard, names, context);
}

// Runs the default pipeline without `place`, which has a separate test.
inline Shard run_default(const Shard& shard, const PassOptions& options = {}) {
  PassContext context{options, {}};
  std::vector<const Pass*> passes = default_pipeline(options);
  auto result =
      run_pipeline(shard, passes, context, {.skip = {"place"}, .dump_dir = testing::TempDir()});
  EXPECT_TRUE(result.has_value()) << render(result.error());
  return result ? result->shard : shard;
}

inline double relative_l2(const std::vector<float>& got, const std::vector<float>& wanted) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - wanted[i], 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1));
}

inline std::vector<Tensor> outputs_of(const Shard& shard, const std::vector<Tensor>& inputs) {
  auto outputs = evaluate(shard, inputs);
  EXPECT_TRUE(outputs.has_value()) << render(outputs.error());
  return outputs ? *outputs : std::vector<Tensor>{};
}

// Expects equal outputs for equal inputs, up to rounding.
inline void expect_same_values(const Shard& before, const Shard& after,
                               const std::vector<Tensor>& inputs, double tolerance = 1e-5) {
  const std::vector<Tensor> wanted = outputs_of(before, inputs);
  const std::vector<Tensor> got = outputs_of(after, inputs);
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = before.outputs[i].name;
    EXPECT_EQ(wanted[i].type, got[i].type) << name;
    ASSERT_EQ(wanted[i].data.size(), got[i].data.size()) << name;
    double norm = 0;
    for (float value : wanted[i].data) norm += std::abs(value);
    EXPECT_GT(norm, 0) << name << " is zero: the check would see nothing";
    EXPECT_LE(relative_l2(got[i].data, wanted[i].data), tolerance) << name << "\n" << print(after);
  }
}

inline void expect_same_values(const Shard& before, const Shard& after, double tolerance = 1e-5) {
  expect_same_values(before, after, seeded_inputs(before, 1), tolerance);
}

template <class OpT>
size_t count_ops(const Shard& shard) {
  size_t count = 0;
  for (const Op& op : shard.ops) count += std::holds_alternative<OpT>(op.data);
  return count;
}

inline bool has_code(const Diagnostics& diagnostics, std::string_view code) {
  for (const Diagnostic& diagnostic : diagnostics)
    if (diagnostic.code == code) return true;
  return false;
}

inline const Layout kTokenLayouts[] = {Layout::rows, Layout::channels, Layout::bc1s};

}  // namespace moec
