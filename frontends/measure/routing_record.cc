#include "frontends/measure/routing_record.h"

#include "backends/runtime/session/masked_routers.h"
#include "backends/runtime/session/step_inputs.h"

namespace moec {

// The chunks of a text arrive in order, so appending keeps the rows in token order.
StepProbe RoutingRecord::probe(int64_t count) {
  return [this, count](const manifest::Shard& shard, std::string_view label, const Tensor& value) {
    const auto layer = routed_layer(shard, label);
    if (!layer) return;
    Rows rows = unpack_rows(value, count);
    Rows& all = layers_[*layer];
    all.columns = rows.columns;
    all.data.insert(all.data.end(), rows.data.begin(), rows.data.end());
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
