// Collects the findings of check_model().
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace moec {

class ConfigChecker {
 public:
  template <class... Args>
  bool require(bool condition, std::string_view code, fmt::format_string<Args...> cause,
               Args&&... args) {
    if (!condition)
      findings_.push_back({Severity::error,
                           std::string(code),
                           fmt::format(cause, std::forward<Args>(args)...),
                           "correct the config, or download the checkpoint again",
                           {}});
    return condition;
  }
  void size(std::string_view name, int64_t value) {
    require(value > 0 && value <= kLargest, "model.size", "{} is {}, must be from 1 to {}", name,
            value, kLargest);
  }
  // A size with the lower limit of attention and expert ops (ir/graph/infer_composites.cc).
  void count(std::string_view name, int64_t value) {
    require(value > 0 && value <= kLargestCount, "model.size", "{} is {}, must be from 1 to {}",
            name, value, kLargestCount);
  }
  void matrix(std::string_view name, const Dims& dims) {
    require(checked_elements(dims).has_value(), "model.size",
            "{} has the shape {}, which is empty or has more than {} elements", name,
            to_string(dims), kMaxElements);
  }
  void positive(std::string_view code, std::string_view name, double value) {
    require(std::isfinite(value) && value > 0, code, "{} is {}, must be above 0", name, value);
  }
  Diagnostics take() { return std::move(findings_); }
  bool good() const { return findings_.empty(); }

 private:
  static constexpr int64_t kLargest = int64_t{1} << 30;
  static constexpr int64_t kLargestCount = int64_t{1} << 20;
  Diagnostics findings_;
};

}  // namespace moec
