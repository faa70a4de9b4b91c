#include "frontends/residency/cache_routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "backends/manifest/expert_grid.h"
#include "backends/residency/expert_cache.h"
#include "backends/runtime/step_inputs.h"
#include "frontends/analyze/pass_text.h"
#include "frontends/formats/read_shard.h"
#include "ir/base/at.h"

namespace moec {
namespace {

constexpr const char* kRouterLogits = "router";  // ir/analysis/router_choice.h

tl::unexpected<Diagnostics> unfit_router(const std::string& cause, const std::string& source) {
  return fail("simulate.router", cause,
              "cache-aware routing is for routers that choose by their logits alone, in an export "
              "in f32 with --routing host or a shard for each layer's experts",
              {.file = source});
}

Status check_routers(const Manifest& manifest, const std::string& source) {
  for (const manifest::Shard& shard : manifest.shards) {
    if (!shard.routing) continue;
    const Router& router = shard.routing->router;
    const bool by_logits = router.score == Score::softmax ||
                           router.score == Score::softmax_selected ||
                           router.score == Score::sigmoid_selected;
    if (!by_logits || router.groups > 1)
      return unfit_router("the routers choose by groups or by scores", source);
    if (shard.kind == ShardKind::layers)
      return unfit_router("routers and attention are in one shard", source);
  }
  return {};
}

// A run of the text in which routers know of a cache.
class AwareRun {
 public:
  AwareRun(Session& session, const CacheRoutingOptions& options, CacheRoutingPoint& point)
      : session_(session),
        grid_(expert_grid(session.manifest())),
        options_(options),
        point_(point),
        cache_(*parse_enum<PolicyKind>(enum_name(point.policy)), {.slots = point.slots}) {}

  // One token. Returns its logits.
  Result<Rows> pass(std::span<const int64_t> token, int64_t position) {
    MOEC_ASSIGN(Chunk chunk, session_.begin_chunk(token, position));
    const auto& schedule = session_.manifest().schedule;
    for (size_t i = 0; i < schedule.size(); ++i) {
      const bool routes = session_.manifest().find_shard(schedule[i].shard)->routing.has_value();
      if (routes)
        MOEC_TRY(run_router(i, chunk));
      else
        MOEC_TRY(session_.run_step(i, chunk));
    }
    ++step_;
    return std::move(chunk.logits);
  }

  CacheCounts counts() const {
    CacheCounts counts = counts_;
    counts.first_uses = std::ssize(seen_);
    return counts;
  }

 private:
  // A router's shard runs as it is, and once more where the cache calls for other experts.
  Status run_router(size_t step, Chunk& chunk) {
    MOEC_TRY(session_.set_mask({}));
    logits_.clear();
    biased_choice_ = false;
    std::vector<int64_t> own;
    session_.observe_routing([&](int64_t layer, int64_t, const Rows& weights) {
      layer_ = layer;
      for (int64_t e = 0; e < weights.columns; ++e)
        if (at(weights.row(0), e) != 0) own.push_back(e);
    });
    const Status done = session_.run_step(
        step, chunk, [&](const manifest::Shard&, std::string_view label, const Tensor& value) {
          if (label == kRouterLogits) logits_ = unpack_rows(value, 1).data;
          if (label == "router.choice" || label == "router_choice") biased_choice_ = true;
        });
    session_.observe_routing({});
    MOEC_TRY(done);
    MOEC_ASSIGN(const std::vector<int64_t> chosen, choose(own));
    if (chosen != own) {
      ++point_.changed;
      MOEC_TRY(session_.set_mask({{{layer_, chosen}}}));
      MOEC_TRY(session_.run_step(step, chunk));
    }
    return use(chosen);
  }

  Result<std::vector<int64_t>> choose(const std::vector<int64_t>& own) const {
    if (point_.bias == 0) return own;
    if (biased_choice_ || std::ssize(logits_) != grid_.experts)
      return unfit_router("the routers do not choose by their logits alone", options_.run.source);
    std::vector<bool> resident;
    for (int64_t e = 0; e < grid_.experts; ++e) resident.push_back(cache_.resident({layer_, e}));
    return cache_aware_choice(logits_, resident, grid_.top_k, point_.bias, options_.keep_top);
  }

  Status use(const std::vector<int64_t>& chosen) {
    MOEC_ASSIGN(const auto loads, cache_.use(step_, layer_, chosen));
    ++point_.choices;
    counts_.uses += std::ssize(chosen);
    counts_.loads += std::ssize(loads);
    for (const int64_t expert : chosen) seen_.insert({layer_, expert});
    return {};
  }

  Session& session_;
  ExpertGrid grid_;
  const CacheRoutingOptions& options_;
  CacheRoutingPoint& point_;
  ExpertCache cache_;
  CacheCounts counts_;
  std::set<ExpertKey> seen_;
  std::vector<float> logits_;  // of the router that ran last
  bool biased_choice_ = false;
  int64_t layer_ = 0, step_ = 0;
};

class RoutingSimulator {
 public:
  RoutingSimulator(const CacheRoutingOptions& options, Session& plain, Session& aware,
                   const AnalysisText& text)
      : options_(options), plain_(plain), aware_(aware), text_(text) {}

  Status run(CacheRoutingPoint& point) {
    AwareRun run(aware_, options_, point);
    PredictionComparer comparer;
    MOEC_TRY(pass_text(plain_, options_.run, text_, 0,
                       [&](const TextChunk& chunk) { return pass(chunk, run, comparer); }));
    comparer.end_window();
    point.counts = run.counts();
    point.predictions = comparer.result();
    return {};
  }

 private:
  Status pass(const TextChunk& chunk, AwareRun& run, PredictionComparer& comparer) {
    if (chunk.position == 0) {
      aware_.reset();
      if (chunk.first > 0) comparer.end_window();
    }
    MOEC_ASSIGN(const Rows plain, plain_.pass(chunk.tokens, chunk.position));
    for (int64_t t = 0; t < chunk.count; ++t) {
      MOEC_ASSIGN(const Rows aware,
                  run.pass(chunk.tokens.subspan(static_cast<size_t>(t), 1), chunk.position + t));
      comparer.add(plain.row(t), aware.row(0), std::nullopt);
    }
    return {};
  }

  const CacheRoutingOptions& options_;
  Session &plain_, &aware_;
  const AnalysisText& text_;
};

Status check_cache(const CacheRoutingOptions& options, const ExpertGrid& grid) {
  for (const SimulatedPolicy policy : options.cache.policies)
    if (policy == SimulatedPolicy::belady || policy == SimulatedPolicy::pinned)
      return fail("simulate.policy",
                  fmt::format("{} cannot be simulated with routing that knows the cache",
                              enum_name(policy)),
                  "give --policy lru, lfu or lcp");
  for (const int64_t slots : options.cache.capacities)
    if (slots < grid.top_k)
      return fail("simulate.capacity",
                  fmt::format("a token chooses {} experts of a layer, {} slots cannot hold them",
                              grid.top_k, slots),
                  fmt::format("give {} or more", grid.top_k));
  return {};
}

}  // namespace

std::vector<int64_t> cache_aware_choice(std::span<const float> logits,
                                        const std::vector<bool>& resident, int64_t top_k,
                                        double bias, int64_t keep_top) {
  const auto [least, most] = std::minmax_element(logits.begin(), logits.end());
  const double bonus = bias * (double{*most} - double{*least});
  std::vector<double> raised(logits.begin(), logits.end());
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto best_first = [&](int64_t from) {
    std::stable_sort(order.begin() + from, order.end(),
                     [&](int64_t a, int64_t b) { return at(raised, a) > at(raised, b); });
  };
  best_first(0);
  for (size_t e = 0; e < raised.size(); ++e)
    if (resident[e]) raised[e] += bonus;
  const int64_t kept = std::min(keep_top, top_k);
  std::sort(order.begin() + kept, order.end());
  best_first(kept);
  order.resize(static_cast<size_t>(top_k));
  std::sort(order.begin(), order.end());
  return order;
}

Result<CacheRouting> simulate_cache_routing(const CacheRoutingOptions& options) {
  SessionOptions maskable = options.run.session;
  maskable.maskable = true;
  MOEC_ASSIGN(Session plain, Session::open(options.run.source, read_shard, options.run.session));
  MOEC_ASSIGN(Session aware, Session::open(options.run.source, read_shard, maskable));
  const Manifest& manifest = plain.manifest();
  const ExpertGrid grid = expert_grid(manifest);
  MOEC_TRY(check_has_experts(std::ssize(grid.layers), options.run.source));
  MOEC_TRY(check_routers(manifest, options.run.source));
  MOEC_TRY(check_cache(options, grid));
  MOEC_ASSIGN(const AnalysisText text,
              read_analysis_text(options.run, {manifest.tokenizer, manifest.model.vocab},
                                 longest_window(manifest)));
  CacheRouting report{std::ssize(grid.layers),
                      grid.experts,
                      text.tokens(),
                      {},
                      note_precision(manifest, options.run.session.precision)};
  for (const int64_t slots : options.cache.capacities)
    for (const SimulatedPolicy policy : options.cache.policies)
      for (const double bias : options.biases) {
        CacheRoutingPoint& point = report.points.emplace_back();
        point.policy = policy;
        point.slots = slots;
        point.bias = bias;
        MOEC_TRY(RoutingSimulator(options, plain, aware, text).run(point));
      }
  return report;
}

}  // namespace moec
