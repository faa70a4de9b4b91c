#include "frontends/compare/routing_record.h"

#include <fmt/format.h>

#include "backends/runtime/step_inputs.h"
#include "ir/graph/port_names.h"

namespace moec {

// In a shard of several layers, names begin with that of the layer.
static std::string weights_name(const manifest::Shard& shard, int64_t layer) {
  return shard.kind == ShardKind::layers ? fmt::format("L{:02}.{}", layer, kRoutingWeights)
                                         : kRoutingWeights;
}

StepProbe RoutingRecord::probe(int64_t count) {
  return [this, count](const manifest::Shard& shard, std::string_view label, const Tensor& value) {
    if (!shard.routing || !label.ends_with(kRoutingWeights)) return;
    for (const int64_t layer : shard.moe_layers) {
      if (label != weights_name(shard, layer)) continue;
      Rows rows = unpack_rows(value, count);
      Rows& all = layers_[layer];
      all.columns = rows.columns;
      all.data.insert(all.data.end(), rows.data.begin(), rows.data.end());
    }
  };
}

Result<Rows> recorded_logits(Session& session, std::span<const int64_t> tokens, int64_t position,
                             const std::function<int64_t(int64_t remaining)>& chunk_size,
                             RoutingRecord& record) {
  Rows logits{session.manifest().logits.vocab, {}};
  while (!tokens.empty()) {
    const int64_t count = chunk_size(std::ssize(tokens));
    const auto chunk = tokens.first(static_cast<size_t>(count));
    MOEC_ASSIGN(const Rows rows, session.pass(chunk, position, record.probe(count)));
    logits.data.insert(logits.data.end(), rows.data.begin(), rows.data.end());
    tokens = tokens.subspan(chunk.size());
    position += count;
  }
  return logits;
}

}  // namespace moec
