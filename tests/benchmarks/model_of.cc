#include "tests/benchmarks/model_of.h"

#include <cstdlib>

#include "backends/targets/load_target.h"
#include "frontends/sources/hf/config.h"
#include "ir/base/invariant.h"
#include "models/published/published.h"
#include "models/shards/needed_tensors.h"
#include "passes/pipeline.h"

namespace moec {
namespace {

template <class T>
T must(Result<T> result) {
  MOEC_CHECK(result.has_value(), "{}", render(result.error()));
  return std::move(*result);
}

}  // namespace

ModelConfig model_with_experts(int64_t experts) {
  const PublishedModel& published = *must(find_published("qwen3-30b-a3b"));
  ModelConfig model = must(read_config(published.config, "qwen3-30b-a3b")).model;
  model.moe.experts = experts;
  return model;
}

Plan plan_with_experts(int64_t experts) {
  ModelConfig model = model_with_experts(experts);
  WeightTable weights = declared_weights(model, DType::bf16);
  BuildOptions build;
  build.context = 2048;
  build.head_slices = 1;
  return must(plan_model(std::move(model), std::move(weights), std::move(build)));
}

Shard moe_shard(const Plan& plan) {
  for (size_t i = 0; i < plan.shards.size(); ++i)
    if (plan.shards[i].kind == ShardKind::moe) return must(build_shard(plan, i, 1));
  MOEC_CHECK(false, "the plan has no MoE shard");
}

Shard placed_moe_shard(const Plan& plan) {
  PassContext context;
  context.options.target = must(builtin_target("onnx"));
  return must(run_pipeline(moe_shard(plan), default_pipeline(context.options), context)).shard;
}

}  // namespace moec
