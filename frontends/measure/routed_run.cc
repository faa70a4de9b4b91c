#include "frontends/measure/routed_run.h"

#include <fmt/format.h>

#include <map>

#include "backends/manifest/expert_grid.h"
#include "frontends/measure/run_text.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Skips a step by forwarding its residual input to its output.
void skip_experts(const manifest::Step& step, Chunk& chunk) {
  const std::string* from = nullptr;
  for (const InputBinding& binding : step.inputs)
    if (binding.port == step.skip_from) from = &binding.edge;
  MOEC_CHECK(from != nullptr, "the step has no input {}, although the manifest was checked",
             step.skip_from);
  for (const OutputBinding& binding : step.outputs)
    if (binding.port == step.skip_to) chunk.edges[binding.edge] = chunk.edges.at(*from);
}

class RoutedRunner {
 public:
  RoutedRunner(Session& session, const Text& text, RoutedSteps steps)
      : session_(session), manifest_(session.manifest()), steps_(steps) {
    const ExpertGrid grid = expert_grid(manifest_);
    for (const int64_t layer : grid.layers)
      counters_.try_emplace(layer, layer, grid.experts, text,
                            CountedParts{.outputs = false, .activations = false, .pairs = false});
  }

  Status pass(const TextChunk& text) {
    MOEC_ASSIGN(Chunk chunk, session_.begin_chunk(text.tokens, text.position));
    for (size_t i = 0; i < manifest_.schedule.size(); ++i) {
      const manifest::Step& step = manifest_.schedule[i];
      const manifest::Shard& shard = *manifest_.find_shard(step.shard);
      if (steps_ == RoutedSteps::trunk && is_head(shard.kind)) continue;
      if (steps_ == RoutedSteps::trunk && is_expert_step(manifest_, step)) {
        skip_experts(step, chunk);
        continue;
      }
      // The session skips a step if no token chooses its experts. Weights of steps that never run
      // are not counted.
      const int64_t skipped = session_.skipped_steps();
      MOEC_TRY(session_.run_step(i, chunk));
      if (session_.skipped_steps() == skipped) ran_.insert(i);
    }
    return {};
  }

  void see(int64_t layer, int64_t first, const Rows& weights) {
    const auto counter = counters_.find(layer);
    if (counter == counters_.end()) return;
    told_.insert(layer);
    for (int64_t t = 0; t < weights.count(); ++t)
      for (int64_t e = 0; e < weights.columns; ++e)
        if (const float weight = at(weights.row(t), e); weight != 0)
          counter->second.choose(first + t, e, weight);
  }

  Result<RoutedRun> finish() {
    RoutedRun run;
    for (auto& [layer, counter] : counters_) {
      if (!told_.contains(layer))
        return fail("analyze.no_router", "the graph does not label the routing weights",
                    "export again without --skip-pass", {.shard = fmt::format("L{:02}", layer)});
      run.layers.push_back(std::move(counter).finish());
    }
    std::set<std::string> shards;
    // Several steps can run the same shard; its weights count once.
    for (const size_t step : ran_) shards.insert(manifest_.schedule[step].shard);
    for (const std::string& shard : shards) run.bytes += manifest_.find_shard(shard)->weight_bytes;
    return run;
  }

 private:
  Session& session_;
  const Manifest& manifest_;
  RoutedSteps steps_;
  std::map<int64_t, LayerCounter> counters_;
  std::set<int64_t> told_;
  std::set<size_t> ran_;  // steps that ran
};

}  // namespace

bool is_expert_step(const Manifest& manifest, const manifest::Step& step) {
  return !step.skip_from.empty() && is_expert_group(manifest.find_shard(step.shard)->kind);
}

Result<RoutedRun> run_routed(Session& session, const AnalyzeOptions& options, const Text& text,
                             RoutedSteps steps) {
  RoutedRunner runner(session, text, steps);
  Observer observer = follow_run(options, text);
  observer.routing = [&](int64_t layer, int64_t first, const Rows& weights) {
    runner.see(layer, first, weights);
  };
  MOEC_TRY(run_text(session, text, observer, {.pass = [&](const TextChunk& chunk, const auto&) {
                      return runner.pass(chunk);
                    }}));
  return runner.finish();
}

}  // namespace moec
