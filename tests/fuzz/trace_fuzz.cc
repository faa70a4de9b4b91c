// Reads arbitrary bytes as an expert trace. An accepted trace must be sorted, must not repeat an
// expert per token, and its numbers must be within the limits of a simulation.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "backends/residency/cache_steps.h"
#include "backends/residency/expert_trace.h"
#include "ir/base/invariant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto rows = moec::parse_trace({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!rows) return 0;
  for (size_t i = 0; i < rows->size(); ++i) {
    const auto& [layer, token, expert, weight] = (*rows)[i];
    MOEC_CHECK(layer >= 0 && token >= 0 && expert >= 0 && std::isfinite(weight),
               "a number is out of range");
    if (i == 0) continue;
    const moec::TraceRow& before = (*rows)[i - 1];
    MOEC_CHECK(std::tie(before.token, before.layer, before.expert) < std::tie(token, layer, expert),
               "rows are not sorted");
  }
  const auto steps = moec::cache_steps(*rows, 3);
  const auto counts = moec::simulate_belady(steps, {.slots = moec::largest_step(steps)});
  MOEC_CHECK(counts && counts->loads >= counts->first_uses, "a first use is not a load");
  return 0;
}
