// Runs each router in every top-k variant and selects, per token, the smallest k that reaches the
// confidence threshold (top_k_choice.h).
#include <utility>

#include "backends/runtime/session/session_impl.h"
#include "backends/runtime/session/step_inputs.h"
#include "ir/base/invariant.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

const std::string& routing_edge(const manifest::Step& step) {
  for (const OutputBinding& binding : step.outputs)
    if (binding.port == kRoutingWeights) return binding.edge;
  MOEC_CHECK(false, "the router of step {} has no routing weights", step.shard);
}

Rows rows_of_choice(std::span<const Rows> by_k, std::span<const size_t> chosen) {
  Rows rows{by_k.back().columns, {}};
  for (size_t t = 0; t < chosen.size(); ++t) {
    const auto row = by_k[chosen[t]].row(static_cast<int64_t>(t));
    rows.data.insert(rows.data.end(), row.begin(), row.end());
  }
  return rows;
}

// Hides routing weights from the probe, because those of a single variant are not final.
StepProbe without_weights(const StepProbe& probe) {
  if (!probe) return {};
  return [&probe](const manifest::Shard& shard, std::string_view label, const Tensor& value) {
    if (!label.ends_with(kRoutingWeights)) probe(shard, label, value);
  };
}

const manifest::Port& weights_port(const manifest::Width& width) {
  for (const manifest::Port& port : width.outputs)
    if (port.name == kRoutingWeights) return port;
  MOEC_CHECK(false, "a router has no port of routing weights");
}

}  // namespace

// The probe receives the values of the router with the largest k, then the final routing weights.
Status Session::Impl::route_by_confidence(size_t step, Chunk& chunk, const StepProbe& probe) {
  const manifest::Shard& shard = *shards[step];
  const std::string& edge = routing_edge(manifest.schedule[step]);
  const std::vector<size_t> forms = routing.top_k.forms_of(shard.layer);
  const RoutingObserver told = std::exchange(routing.observer, {});
  const StepProbe inside = without_weights(probe);
  const size_t before = routing.top_k.form;
  std::vector<Rows> by_k;
  Status ran;
  for (size_t i = 0; i < forms.size() && ran; ++i) {
    routing.top_k.form = forms[i];
    // Variants ascend by k. Only the run with the largest k calls `probe`: once for each value.
    ran = run_shard(step, chunk, i + 1 == forms.size() ? inside : StepProbe());
    if (ran) by_k.push_back(chunk.edges.at(edge));
  }
  // Restored before the status is returned, so that the session stays usable after an error.
  routing.top_k.form = before;
  routing.observer = told;
  MOEC_TRY(ran);
  const std::vector<size_t> chosen = confident_choice(by_k, *routing.top_k.threshold);
  for (const size_t i : chosen)
    ++routing.top_k_counts[routing.top_k.forms[forms[i]].layers.at(shard.layer)];
  chunk.edges[edge] = rows_of_choice(by_k, chosen);
  if (probe)
    probe(shard, kRoutingWeights,
          pack_rows(weights_port(shard.widths[chunk.width]), chunk.edges[edge]));
  if (routing.observer) routing.observer(shard.layer, chunk.position, chunk.edges[edge]);
  return {};
}

}  // namespace moec
