// Counts the tokens that experts drop in an export with a capacity (limit_capacity in
// passes/passes.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "backends/reference/reference.h"

namespace moec {

class CapacityDrops {
 public:
  // Number of (token, chosen expert) pairs in steps with a capacity, and the number of dropped ones
  // among them.
  int64_t choices() const { return choices_; }
  int64_t dropped() const { return dropped_; }
  double rate() const {
    return choices_ == 0 ? 0 : static_cast<double>(dropped_) / static_cast<double>(choices_);
  }

  // "17 of 340 chosen experts dropped (5.0 %)"
  std::string describe() const;

  // Observes a labelled value inside a graph. If the value is routing weights before or after the
  // capacity applies, counts its first `count` tokens; ignores other values.
  void take(std::string_view label, const Tensor& value, int64_t count);

 private:
  std::map<std::string, Tensor, std::less<>> before_;  // by scope of the layer
  int64_t choices_ = 0, dropped_ = 0;
};

}  // namespace moec
