#include "frontends/jobs/analyze/energy.h"

#include <fmt/format.h>

namespace moec {
namespace {

constexpr double kDramPicojoules = 1300.0 / 8;  // of a byte
constexpr double kMacF32 = 3.7 + 0.9, kMacF16 = 1.1 + 0.4;
constexpr double kPicojoule = 1e-12;

}  // namespace

EnergyPrices horowitz_prices(DType multiplied) {
  const bool wide = multiplied == DType::f32;
  return {kDramPicojoules, wide ? kMacF32 : kMacF16,
          fmt::format("Horowitz, ISSCC 2014, 45 nm: DRAM 1.3 nJ for 64 bits, multiply and add in "
                      "{}",
                      wide ? "f32" : "f16")};
}

double energy_of(int64_t bytes, int64_t macs, const EnergyPrices& prices) {
  return kPicojoule * (static_cast<double>(bytes) * prices.per_byte +
                       static_cast<double>(macs) * prices.per_mac);
}

}  // namespace moec
