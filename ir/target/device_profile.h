// Speeds of one machine, as moec doctor measures them. A plan's forecast
// (models/plan/forecast.h) prices the work of a model with them.
// All durations are in seconds, all sizes in bytes, all rates in bytes per second.
// device_profile_json.h reads and writes the file.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/enum_table.h"
#include "ir/graph/weight_form.h"

namespace moec {

// One measured product of a matrix of `weights` elements with `tokens` vectors.
struct ProductPoint {
  int64_t weights = 0, tokens = 0;
  double seconds = 0;
  bool operator==(const ProductPoint&) const = default;
};

// Measured products, for every combination of at least one number of weights and one number of
// tokens. Sorted by weights, then by tokens.
class ProductTimes {
 public:
  ProductTimes() = default;
  // Sorts the points. Empty unless they are a complete grid of positive numbers.
  static std::optional<ProductTimes> of(std::vector<ProductPoint> points);

  const std::vector<ProductPoint>& points() const { return points_; }

  // Interpolates linearly between the points along both axes. Below the smallest number of weights,
  // the time is proportional to it; below the smallest number of tokens, the time is that of the
  // smallest. Beyond the largest number, the last two points (or the only one) continue linearly if
  // the time increases; otherwise, the time is that of the largest.
  double seconds(double weights, double tokens) const;

  bool operator==(const ProductTimes&) const = default;

 private:
  std::vector<int64_t> sizes_, widths_;  // distinct numbers of weights and of tokens, ascending
  std::vector<ProductPoint> points_;     // sizes_ × widths_
};

// Times of one storage form of weights. `dtype` is the type of the decoded values.
struct FormTimes {
  WeightForm form;
  DType dtype = DType::f32;
  ProductTimes times;
  bool operator==(const FormTimes&) const = default;
};

// Kinds of work on elements, besides products. Kinds have different times per element.
//   move         slice, concatenation, reshape, gathered rows, copies at the ports of a graph
//   transpose    transpose
//   arithmetic   one or two operations per element: add, compare, select, cast
//   exponential  exp, sigmoid, softmax and other functions
//   reduce       sums and maxima along an axis, top-k
enum class ElementWork : uint8_t { move, transpose, arithmetic, exponential, reduce };
constexpr auto enum_names(ElementWork) {
  return name_table<ElementWork>({"move", "transpose", "arithmetic", "exponential", "reduce"});
}

// Reads of `bytes` bytes at random positions with as many threads as the expert cache uses.
struct RandomReads {
  int64_t bytes = 0;
  double rate = 0;
  bool operator==(const RandomReads&) const = default;
};

struct DeviceProfile {
  std::string engine, vectors;   // "cpu"; its vector instruction set
  int64_t threads = 1;           // compute threads during the measurement
  int64_t memory_bytes = 0;      // physical memory
  double memory_rate = 0;        // reads of memory by all threads
  std::vector<FormTimes> forms;  // products with weights; at least one
  ProductTimes activations;      // products of two activations; `weights` counts the right factor
  std::array<double, enum_count<ElementWork>> element_seconds{};  // per element
  double op_seconds = 0;                                          // per op that a run evaluates
  double idle_op_seconds = 0;                                     // per op that a run skips
  double run_seconds = 0;                                         // per run of a graph
  double sequential_rate = 0;      // reads of a file from start to end
  std::vector<RandomReads> reads;  // ascending sizes; at least one
  bool operator==(const DeviceProfile&) const = default;

  // Returns the times of the measured form that is most similar to this storage: the same kind and
  // number of bits, then the same type of values, then the nearest block size. `inner` is the
  // length of a row. Null if no form of this kind and number of bits was measured.
  const ProductTimes* times_of(const Encoding& encoding, DType dtype, int64_t inner) const;
  // Returns the rate of random reads of this size, interpolated between the measured sizes.
  double read_rate(double bytes) const;
  // Names the engine for the user: "cpu with 8 threads (AVX2)".
  std::string machine() const;
};

}  // namespace moec
