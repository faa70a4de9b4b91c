// Routing that prefers resident experts. Each router first runs unmodified. If the preference
// selects other experts, the router runs again with a mask that leaves only these.
#include <utility>

#include "backends/runtime/session/session_impl.h"
#include "backends/runtime/session/step_inputs.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr const char* kRouterLogits = "router";  // label of ir/analysis/router_choice.h

tl::unexpected<Diagnostics> unfit_router(const std::string& cause) {
  return fail("session.cache_bias", cause,
              "use a model whose routers choose by logits alone, exported in f32 with a cache "
              "and with --routing host or --experts-per-shard");
}

}  // namespace

// Returns true if the scores are monotonic in the logits and no bias is added to the scores.
static bool chooses_by_logits(Score score) {
  switch (score) {
    case Score::softmax:
    case Score::softmax_selected:
    case Score::sigmoid_selected:
      return true;
    case Score::sigmoid:
    case Score::sparsemixer:
      break;
  }
  return false;
}

Status check_cache_bias(const Manifest& manifest) {
  if (!has_cache(manifest.build.cache))
    return unfit_router("the export has no cache, so all tokens run in one pass");
  for (const manifest::Shard& shard : manifest.shards) {
    if (!shard.routing) continue;
    const Router& router = shard.routing->router;
    if (!chooses_by_logits(router.score) || router.groups > 1)
      return unfit_router("the routers choose by groups or by biased scores");
    if (holds_whole_layers(shard.kind))
      return unfit_router("routers and attention are in one shard");
  }
  return {};
}

std::vector<int64_t> RouterRun::chosen() const {
  std::vector<int64_t> experts;
  for (int64_t e = 0; e < weights.columns; ++e)
    if (at(weights.row(0), e) != 0) experts.push_back(e);
  return experts;
}

void Session::prefer_resident(ResidentPreference preference) {
  MOEC_CHECK(impl_->options.maskable, "the session was not opened as maskable");
  impl_->routing.preferred = {preference.bias, 0, 0};
  impl_->routing.preference = std::move(preference);
}

std::optional<PreferredCounts> Session::preferred() const {
  if (!impl_->routing.preference) return std::nullopt;
  return impl_->routing.preferred;
}

// Applies SessionOptions::cache_bias, with the session's own slots as the resident experts.
Status Session::Impl::open_preference() {
  if (!options.cache_bias) return {};
  if (!experts) return unfit_router("no experts are in slots");
  if (!mask.layers.empty() || !fixed_masks.baked.layers.empty())
    return unfit_router("a mask restricts the experts that tokens can choose");
  MOEC_TRY(check_cache_bias(manifest));
  routing.preference = {*options.cache_bias, [this](ExpertId key) { return experts->holds(key); }};
  routing.preferred.bias = *options.cache_bias;
  return {};
}

// Returns the experts with the largest logits after the bias of resident experts is added.
std::vector<int64_t> Session::Impl::preferred_experts(int64_t layer,
                                                      std::span<const float> logits) const {
  std::vector<bool> resident;
  for (int64_t e = 0; e < grid.experts; ++e)
    resident.push_back(routing.preference->resident({layer, e}));
  return cache_aware_choice(logits, resident, top_k_of(layer), routing.preference->bias);
}

// Runs the router unmodified and captures its result. Does not call the observer, because the
// choice can still change.
Result<RouterRun> Session::Impl::run_router(size_t step, Chunk& chunk) {
  RouterRun router;
  const RoutingObserver told =
      std::exchange(routing.observer, [&](int64_t layer, int64_t, const Rows& of) {
        router.layer = layer;
        router.weights = of;
      });
  const StepProbe probe = [&](const manifest::Shard&, std::string_view label, const Tensor& value) {
    if (label == kRouterLogits) router.logits = unpack_rows(value, 1).data;
    router.by_scores = router.by_scores || label == "router.choice" || label == "router_choice";
  };
  const Status ran = run_shard(step, chunk, probe);
  // Restored before the status is returned, so that an error does not lose the observer.
  routing.observer = told;
  MOEC_TRY(ran);
  return router;
}

Status Session::Impl::route_by_residents(size_t step, Chunk& chunk) {
  // chunk_size() returns 1 with a preference, because the mask below applies to a whole chunk.
  MOEC_CHECK(chunk.count == 1, "expected 1 token per chunk with a resident preference, found {}",
             chunk.count);
  MOEC_ASSIGN(const RouterRun router, run_router(step, chunk));
  std::vector<int64_t> chosen = router.chosen();
  // A bias of 0 keeps the model's choice, so it does not need the logits.
  if (routing.preference->bias.bias > 0) {
    if (router.by_scores || std::ssize(router.logits) != grid.experts)
      return unfit_router("the routers do not choose by their logits alone");
    chosen = preferred_experts(router.layer, router.logits);
  }
  ++routing.preferred.choices;
  if (chosen == router.chosen()) {
    if (routing.observer) routing.observer(router.layer, chunk.position, router.weights);
    return {};
  }
  ++routing.preferred.changed;
  const ExpertSets before = std::exchange(mask, {{{router.layer, chosen}}});
  const Status ran = run_shard(step, chunk, {});
  mask = before;
  return ran;
}

}  // namespace moec
