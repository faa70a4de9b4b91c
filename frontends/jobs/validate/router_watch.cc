#include "frontends/jobs/validate/router_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/runtime/session/step_inputs.h"

namespace moec {

StepProbe RouterWatch::probe(const manifest::Shard& shard) {
  // Shards without routers have nothing to watch, so their run needs no probe.
  if (!shard.routing) return {};
  return [this](const manifest::Shard&, std::string_view label, const Tensor& value) {
    // The label ends with the name: shards with several layers put the layer before it.
    if (label.ends_with(kRouterLogits) || label.ends_with(kRoutingWeights))
      seen_.insert_or_assign(std::string(label), value);
  };
}

static std::string name_of(const manifest::Shard& shard, int64_t layer, std::string_view value) {
  // A shard of a single layer has no prefix in its labels.
  return fmt::format("{}{}", holds_whole_layers(shard.kind) ? fmt::format("L{:02}.", layer) : "",
                     value);
}

std::string RouterWatch::weights_label(const manifest::Shard& shard, int64_t layer) {
  return name_of(shard, layer, kRoutingWeights);
}

static double largest_error(std::span<const float> x, std::span<const float> y) {
  double error = 0;
  for (size_t i = 0; i < x.size(); ++i)
    // Subtracts in double, because an f32 difference would be rounded.
    error = std::max(error, std::fabs(static_cast<double>(x[i]) - y[i]));
  return error;
}

Status RouterWatch::compare(const GoldenTokens& tokens, const manifest::Shard& shard,
                            RouterComparer& comparer) const {
  for (const int64_t layer : shard.moe_layers)
    MOEC_TRY(compare_layer(tokens, shard, layer, comparer));
  return {};
}

Status RouterWatch::compare_layer(const GoldenTokens& tokens, const manifest::Shard& shard,
                                  int64_t layer, RouterComparer& comparer) const {
  const auto& [golden, step, begin, count] = tokens;
  const auto seen_logits = seen_.find(name_of(shard, layer, kRouterLogits));
  const auto seen_weights = seen_.find(weights_label(shard, layer));
  // Passes that rename values can be skipped, and the graph then has other labels.
  if (seen_logits == seen_.end() || seen_weights == seen_.end())
    return fail("validate.no_router", "the graph does not name the router's logits and weights",
                "export again without --skip-pass", {.shard = shard.name});
  MOEC_ASSIGN(const Rows golden_weights,
              golden.routing_weights(step, layer, shard.routing->experts));
  const std::string logits_name = Golden::name(step, layer, "router_logits");
  const std::string choice_name = Golden::name(step, layer, "choice_scores");
  MOEC_ASSIGN(const Rows golden_logits, golden.rows(logits_name));
  // Routers with a selection bias choose by other scores than their logits.
  MOEC_ASSIGN(const Rows golden_choice,
              golden.rows(golden.has(choice_name) ? choice_name : logits_name));
  MOEC_ASSIGN(const Rows chosen, golden.rows(Golden::name(step, layer, "experts")));
  const Rows weights = unpack_rows(seen_weights->second, count);
  const Rows logits = unpack_rows(seen_logits->second, count);
  for (int64_t t = 0; t < count; ++t) {
    // The golden has the rows of the whole step, and the chunk begins at `begin`.
    const auto experts = chosen.row(begin + t);
    comparer.add(weights.row(t), golden_weights.row(begin + t),
                 std::vector<int32_t>(experts.begin(), experts.end()), golden_choice.row(begin + t),
                 largest_error(logits.row(t), golden_logits.row(begin + t)));
  }
  return {};
}

}  // namespace moec
