#include "frontends/jobs/residency/cache_routing.h"

#include <fmt/format.h>

#include <optional>
#include <set>

#include "backends/formats/read_shard.h"
#include "backends/manifest/expert_grid.h"
#include "backends/residency/expert_cache.h"
#include "frontends/measure/measurement.h"
#include "frontends/measure/run_text.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// A run of the text with cache-aware routing.
class AwareRun {
 public:
  // enum_name() maps the policy to PolicyKind, whose names are the same. check_cache() has excluded
  // the policies without a counterpart.
  AwareRun(Session& session, const CacheRoutingOptions& options, CacheRoutingPoint& point)
      : session_(session),
        point_(point),
        cache_(*parse_enum<PolicyKind>(enum_name(point.policy)), {.slots = point.slots}) {
    // The callback reads `cache_` before each choice, so the bias follows the cache's current
    // contents.
    session_.prefer_resident(
        {{point.bias, options.keep_top}, [this](ExpertId key) { return cache_.resident(key); }});
    session_.observe_routing([this](int64_t layer, int64_t, const Rows& weights) {
      // The callback cannot return an error, so the first one is kept for pass().
      if (const Status used = use(layer, weights); !used && failure_) failure_ = used;
    });
  }
  // The session outlives this object, and its callback refers to it.
  ~AwareRun() { session_.observe_routing({}); }
  AwareRun(const AwareRun&) = delete;
  AwareRun& operator=(const AwareRun&) = delete;

  // Runs one token and returns its logits.
  Result<Rows> pass(std::span<const int64_t> token, int64_t position) {
    // One token per pass, because the cache changes after every token.
    auto logits = session_.pass(token, position);
    ++step_;
    MOEC_TRY(failure_);
    return logits;
  }

  void finish() {
    point_.counts = counts_;
    point_.counts.first_uses = std::ssize(seen_);
    // The constructor has called prefer_resident(), so preferred() is not empty.
    point_.choices = session_.preferred()->choices;
    point_.changed = session_.preferred()->changed;
  }

 private:
  Status use(int64_t layer, const Rows& weights) {
    std::vector<int64_t> chosen;
    for (int64_t e = 0; e < weights.columns; ++e)
      // Weights of experts that were not picked are exactly 0.
      if (at(weights.row(0), e) != 0) chosen.push_back(e);
    MOEC_ASSIGN(const auto loads, cache_.use(step_, layer, chosen));
    counts_.uses += std::ssize(chosen);
    counts_.loads += std::ssize(loads);
    for (const int64_t expert : chosen) seen_.insert({layer, expert});
    return {};
  }

  Session& session_;
  CacheRoutingPoint& point_;
  ExpertCache cache_;
  CacheCounts counts_;
  std::set<ExpertId> seen_;
  int64_t step_ = 0;
  Status failure_;
};

class RoutingSimulator {
 public:
  RoutingSimulator(const CacheRoutingOptions& options, Session& plain, Session& aware,
                   const Text& text)
      : options_(options), plain_(plain), aware_(aware), text_(text) {}

  Status run(CacheRoutingPoint& point) {
    AwareRun run(aware_, options_, point);
    PredictionComparer comparer;
    // The plain session runs whole chunks; only the aware session needs single tokens.
    MOEC_TRY(run_text(plain_, text_, follow_run(options_.run, text_),
                      {.pass = [&](const TextChunk& chunk, const StepProbe&) {
                        return pass(chunk, run, comparer);
                      }}));
    comparer.end_window();
    run.finish();
    point.predictions = comparer.result();
    return {};
  }

 private:
  Status pass(const TextChunk& chunk, AwareRun& run, PredictionComparer& comparer) {
    // Position 0 begins a window, which ends the previous window, if any.
    if (chunk.position == 0) {
      aware_.reset();
      if (chunk.first > 0) comparer.end_window();
    }
    MOEC_ASSIGN(const Rows plain, plain_.pass(chunk.tokens, chunk.position));
    for (int64_t t = 0; t < chunk.count(); ++t) {
      MOEC_ASSIGN(const Rows aware,
                  run.pass(chunk.tokens.subspan(static_cast<size_t>(t), 1), chunk.position + t));
      // Passes no next token, because the report has no bits per token.
      comparer.add(plain.row(t), aware.row(0), std::nullopt);
    }
    return {};
  }

  const CacheRoutingOptions& options_;
  Session &plain_, &aware_;
  const Text& text_;
};

Status check_cache(const CacheRoutingOptions& options, const ExpertGrid& grid) {
  // belady needs the future, and pinned needs a profile.
  for (const SimulatedPolicy policy : options.cache.policies)
    if (policy == SimulatedPolicy::belady || policy == SimulatedPolicy::pinned)
      return fail("simulate.policy",
                  fmt::format("{} cannot be simulated with cache-aware routing", enum_name(policy)),
                  "pass --policy lru, lfu or lcp");
  for (const int64_t slots : options.cache.capacities)
    // All experts of a token must be resident at the same time.
    if (slots < grid.top_k)
      return fail("simulate.capacity",
                  fmt::format("a token picks {} experts of a layer, but there are {} slots",
                              grid.top_k, slots),
                  fmt::format("pass --capacity {} or more", grid.top_k));
  return {};
}

}  // namespace

Result<CacheRouting> simulate_cache_routing(const CacheRoutingOptions& options) {
  SessionOptions half = options.run.session;  // each of the two sessions gets half of the memory
  half.memory_bytes /= 2;
  SessionOptions maskable = half;
  // prefer_resident() requires a session whose routers can be masked.
  maskable.maskable = true;
  MOEC_ASSIGN(Session plain, Session::open(options.run.source, read_shard, half));
  MOEC_ASSIGN(Session aware, Session::open(options.run.source, read_shard, maskable));
  const Manifest& manifest = plain.manifest();
  const ExpertGrid grid = expert_grid(manifest);
  MOEC_TRY(check_has_experts(std::ssize(grid.layers), options.run.source));
  MOEC_TRY(check_cache_bias(manifest));
  MOEC_TRY(check_cache(options, grid));
  // Both sessions are of the same export, so either one limits the window.
  MOEC_ASSIGN(const Text text, read_analysis_text(options.run, manifest));
  CacheRouting report{std::ssize(grid.layers),
                      grid.experts,
                      text.count(),
                      {},
                      note_precision(manifest, options.run.session.precision)};
  for (const int64_t slots : options.cache.capacities)
    for (const SimulatedPolicy policy : options.cache.policies)
      for (const double bias : options.biases) {
        CacheRoutingPoint& point = report.points.emplace_back();
        point.policy = policy;
        point.slots = slots;
        point.bias = bias;
        // Each point starts with an empty cache, because AwareRun owns it.
        MOEC_TRY(RoutingSimulator(options, plain, aware, text).run(point));
      }
  return report;
}

}  // namespace moec
