#include "backends/runtime/experts/gate_log.h"

#include <algorithm>

#include "ir/base/at.h"

namespace moec {

Result<GateLog> GateLog::open(const std::string& path, TraceForm form,
                              std::vector<int64_t> layers) {
  MOEC_ASSIGN(TraceWriter writer, TraceWriter::open(path, form));
  return GateLog(std::move(writer), std::move(layers));
}

void GateLog::add(int64_t layer, int64_t first, const Rows& weights) {
  // open() requires ascending layers, so a binary search is valid.
  if (!std::binary_search(layers_.begin(), layers_.end(), layer)) return;
  for (int64_t t = 0; t < weights.count(); ++t)
    for (int64_t e = 0; e < weights.columns; ++e)
      // Experts that the token did not choose have weight 0.
      if (const float weight = at(weights.row(t), e); weight != 0)
        writer_.add({static_cast<int32_t>(layer), static_cast<int32_t>(first + t),
                     static_cast<int32_t>(e), weight});
}

}  // namespace moec
