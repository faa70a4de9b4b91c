// Counts what experts of an export with a capacity drop (passes/passes.h, limit_capacity).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "backends/reference/reference.h"

namespace moec {

class CapacityDrops {
 public:
  // Of experts that tokens chose in steps whose experts have a capacity, and of these how many
  // were dropped.
  int64_t choices() const { return choices_; }
  int64_t dropped() const { return dropped_; }
  double rate() const {
    return choices_ == 0 ? 0 : static_cast<double>(dropped_) / static_cast<double>(choices_);
  }

  // "17 of 340 chosen experts dropped (5.0 %)"
  std::string describe() const;

  // Takes a value inside a graph: the routing weights of the first `count` tokens before and after
  // experts dropped some. Others are passed over.
  void take(std::string_view label, const Tensor& value, int64_t count);

 private:
  std::map<std::string, Tensor, std::less<>> before_;  // by the prefix of the label
  int64_t choices_ = 0, dropped_ = 0;
};

}  // namespace moec
