// An estimate of the energy of a token: weight bytes read and multiply-adds, each at a price. It
// leaves out caches, values, and everything that is neither; it compares models, it does not
// predict a device.
#pragma once

#include <string>

#include "ir/graph/type.h"

namespace moec {

// Prices in picojoules.
struct EnergyPrices {
  double per_byte = 0;  // of weights, from DRAM
  double per_mac = 0;   // a multiply and an add
  std::string source;
  bool operator==(const EnergyPrices&) const = default;
};

// M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, 45 nm at
// 0.9 V: DRAM 1.3 to 2.6 nJ for 64 bits, of which the lower one is taken (162.5 pJ a byte);
// multiply and add in f32 3.7 + 0.9 pJ, in f16 1.1 + 0.4 pJ. bf16 is priced as f16.
EnergyPrices horowitz_prices(DType multiplied);

// In joules.
double energy_of(int64_t bytes, int64_t macs, const EnergyPrices& prices);

}  // namespace moec
