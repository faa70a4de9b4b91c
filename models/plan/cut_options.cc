#include "models/plan/cut_options.h"

#include <fmt/format.h>

namespace moec {
std::string megabytes_flag(int64_t bytes) {
  // Rounds up, so that `bytes` fits into the returned budget.
  constexpr int64_t kKilo = 1000, kMega = 1'000'000;
  if (bytes > 10 * kMega) return std::to_string((bytes + kMega - 1) / kMega);
  const int64_t kilobytes = (bytes + kKilo - 1) / kKilo;
  return fmt::format("{}.{:03}", kilobytes / kKilo, kilobytes % kKilo);
}

}  // namespace moec
