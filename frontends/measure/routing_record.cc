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
                             const ChunkSize& size, RoutingRecord& record) {
  Rows logits{session.manifest().logits.vocab, {}};
  MOEC_TRY(each_chunk(
      tokens, position, size, [&](std::span<const int64_t> chunk, int64_t begin) -> Status {
        MOEC_ASSIGN(const Rows rows, session.pass(chunk, begin, record.probe(std::ssize(chunk))));
        logits.data.insert(logits.data.end(), rows.data.begin(), rows.data.end());
        return {};
      }));
  return logits;
}

}  // namespace moec
