#include "backends/weights/calibration/run_state.h"

#include <nlohmann/json.hpp>

#include "backends/files/digest.h"

namespace moec {
namespace {

// Bounds the memory that a damaged file can request.
constexpr int64_t kMaxColumns = 1 << 20;

Status read_edge(JsonFields& fields, RunState& state) {
  CalibrationEdge edge;
  MOEC_TRY(fields.text("name", edge.name));
  MOEC_TRY(fields.positive("columns", edge.columns));
  if (edge.columns > kMaxColumns) return fields.bad("columns", "must be at most 1048576");
  state.edges.push_back(std::move(edge));
  return fields.finish();
}

}  // namespace

Status read_seal(JsonFields& fields, std::string_view text) {
  std::string digest;
  MOEC_TRY(fields.text("digest", digest));
  // The value of the field is part of the seal itself, so only is_sealed() compares it.
  return is_sealed(text) ? Status() : fields.bad("digest", "does not match the text before it");
}

nlohmann::ordered_json run_state_json(const RunState& state) {
  auto edges = nlohmann::ordered_json::array();
  for (const CalibrationEdge& edge : state.edges)
    edges.push_back({{"name", edge.name}, {"columns", edge.columns}});
  return {{"next_layer", state.next_layer}, {"edges", std::move(edges)}, {"digest", state.digest}};
}

Status read_run_state(JsonFields& fields, std::string_view name, RunState& state) {
  MOEC_ASSIGN(JsonFields object, fields.object(name));
  MOEC_TRY(object.whole("next_layer", state.next_layer));
  MOEC_TRY(object.each("edges", [&](JsonFields& one) { return read_edge(one, state); }));
  MOEC_TRY(object.text("digest", state.digest));
  return object.finish();
}

}  // namespace moec
