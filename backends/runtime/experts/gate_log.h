// The experts that tokens chose, as a trace (backends/residency/expert_trace.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/reference/rows.h"
#include "backends/residency/expert_trace.h"

namespace moec {

// Writes a row for each expert that a token chose, in the order in which the session runs: chunk,
// layer, token, then experts ascending. `token` is the token's position, `weight` its routing
// weight in as many digits as tell it apart.
class GateLog {
 public:
  // `layers`: those that are logged, ascending. Error trace.write.
  static Result<GateLog> open(const std::string& path, TraceForm form, std::vector<int64_t> layers);

  // The routing weights of tokens, the first of them numbered `first`.
  void add(int64_t layer, int64_t first, const Rows& weights);
  // Ends the file. Error trace.write: not all rows could be written.
  Status close() { return writer_.close(); }

 private:
  GateLog(TraceWriter writer, std::vector<int64_t> layers)
      : writer_(std::move(writer)), layers_(std::move(layers)) {}

  TraceWriter writer_;
  std::vector<int64_t> layers_;
};

}  // namespace moec
