// Logs the experts chosen per token as a trace (backends/residency/expert_trace.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/reference/rows.h"
#include "backends/residency/expert_trace.h"

namespace moec {

// Writes a row per token and chosen expert, in execution order: by chunk, layer and token, then by
// ascending expert. The column `token` is the position of the token; `weight` is the routing weight
// of the expert, with enough digits to round-trip.
class GateLog {
 public:
  // `layers`: the layers to log, ascending. Error: trace.write.
  static Result<GateLog> open(const std::string& path, TraceForm form, std::vector<int64_t> layers);

  // Adds the routing weights of a layer, one row per token; `first` is the position of the first
  // token.
  void add(int64_t layer, int64_t first, const Rows& weights);
  // Completes the file. Error: trace.write (some rows could not be written).
  Status close() { return writer_.close(); }

 private:
  GateLog(TraceWriter writer, std::vector<int64_t> layers)
      : writer_(std::move(writer)), layers_(std::move(layers)) {}

  TraceWriter writer_;
  std::vector<int64_t> layers_;
};

}  // namespace moec
