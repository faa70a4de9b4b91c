// How plan, passes, text form and verifier scale with the number of experts. All other sizes are
// those of Qwen3-30B-A3B; no weights are read.
#include <benchmark/benchmark.h>

#include "backends/targets/load_target.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "tests/benchmarks/model_of.h"

namespace moec {
namespace {

void experts(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(4)->Range(8, 512)->Unit(benchmark::kMillisecond);
}

void count_ops(benchmark::State& state, const Shard& shard) {
  state.counters["ops"] = static_cast<double>(shard.ops.size());
}

void plan(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(plan_with_experts(state.range(0)));
}
BENCHMARK(plan)->Apply(experts);

void all_passes_on_a_layer(benchmark::State& state) {
  const Plan planned = plan_with_experts(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(placed_moe_shard(planned));
  count_ops(state, placed_moe_shard(planned));
}
BENCHMARK(all_passes_on_a_layer)->Apply(experts);

void unroll(benchmark::State& state) {
  const Shard shard = moe_shard(plan_with_experts(state.range(0)));
  PassContext context;
  for (auto _ : state) benchmark::DoNotOptimize(unroll_experts(shard, context));
}
BENCHMARK(unroll)->Apply(experts);

void verify_shard(benchmark::State& state) {
  const Shard shard = placed_moe_shard(plan_with_experts(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(verify(shard));
  count_ops(state, shard);
}
BENCHMARK(verify_shard)->Apply(experts);

void print_shard(benchmark::State& state) {
  const Shard shard = placed_moe_shard(plan_with_experts(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(print(shard));
  count_ops(state, shard);
}
BENCHMARK(print_shard)->Apply(experts);

void parse_text(benchmark::State& state) {
  const std::string text = print(placed_moe_shard(plan_with_experts(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(parse_shard(text));
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}
BENCHMARK(parse_text)->Apply(experts);

}  // namespace
}  // namespace moec
