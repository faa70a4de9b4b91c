// The reference executor: runs a shard on values in memory, each op by its definition in
// ir/graph/ops.h. It prefers clear code to fast code. Composites are computed directly, not by
// lowering them, so that it can test the passes that lower them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/weights/views/weight_pager.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/shard.h"

namespace moec {

// Elements in C order. Bools are 0 and 1; integers are exact below 2^24.
struct Tensor {
  Type type;
  std::vector<float> data;
  bool operator==(const Tensor&) const = default;
};

// f32: each op computes in f32; a result of type f16 or bf16 is rounded to that type.
// f16: each result of a float type, inputs, weights and constants too, is rounded to binary16.
enum class Precision { f32, f16 };

struct ExecutorOptions {
  Precision precision = Precision::f32;
  // The most bytes that the values of the shard may take at a time as f32, without the large
  // weights that stay in their files.
  uint64_t memory_limit = uint64_t{16} << 30;
  // Has the weights that are not read here but brought for each run; may be null. It outlives the
  // executor.
  WeightPager* pager = nullptr;
};

// What a shard takes, in bytes.
struct ExecutorMemory {
  uint64_t held = 0;     // as long as it is loaded: the graph, constants, and small weights as f32
  uint64_t mapped = 0;   // of files, once a run has read all large weights
  uint64_t largest = 0;  // of these: what an op takes
  uint64_t run = 0;      // more during a run: values between ops
};

// Called once for each value, with its label (Shard::label): first the inputs, then the results of
// each op in order, including constants and the weights that are not left in their files.
using Probe = std::function<void(std::string_view label, const Tensor& value)>;

// Rows of tokens that a matrix of weights is applied to, [tokens, inputs].
struct MatrixInput {
  std::string_view matrix;  // label of the weight
  int64_t inputs = 0;
  std::span<const float> rows;
};
// Called for each matrix of linear, gated_mlp and soft_moe, in the order in which they are applied.
// The matrices of an expert get the tokens that chose it.
using MatrixProbe = std::function<void(const MatrixInput& input)>;

// What an expert of soft_moe computes for the tokens that chose it, a row for each of `tokens`.
struct ExpertRows {
  int64_t expert = 0;               // its number in the layer
  std::span<const int64_t> tokens;  // of the shard's
  std::span<const float> weights;   // their routing weights
  std::span<const float> input;     // [tokens, hidden], with RoutedWeight::input times the weights
  std::span<const float> inner;     // [tokens, width of the expert], what its down matrix takes
  std::span<const float> output;    // [tokens, hidden], of the down matrix with its bias
  RoutedWeight weight_on = RoutedWeight::output;
};
// Called for each expert that a token chose.
using ExpertProbe = std::function<void(const ExpertRows& rows)>;

// What is told of a run while it goes on; each may be empty.
struct RunProbes {
  Probe values;
  MatrixProbe matrices;
  ExpertProbe experts;
};

// A shard with its weights, for repeated runs. Large weights that only convolutions and matrix
// products take stay in their files, which are mapped, where they lie there as f32, f16 or bf16;
// all others are loaded. Declared states start as zeros and keep their values between runs.
class Executor {
 public:
  // The shard must be valid (ir/verify). Weights, and values that depend on weights and constants
  // alone, are computed here, once. Errors: those of WeightReader, reference.too_large.
  static Result<Executor> create(const Shard& shard, const WeightReader& weights,
                                 const ExecutorOptions& options = {});
  // The same for a table, whose files are opened.
  static Result<Executor> create(const Shard& shard, const WeightTable& weights,
                                 const ExecutorOptions& options = {});

  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  // Inputs and results in the order of Shard::inputs and Shard::outputs. A run reads the inputs
  // where they lie; it copies those that it must round. Errors:
  // reference.input_count, reference.input_type (element type or sizes differ; layouts may);
  // weights.file_changed and weights.read for a file that was cut, changed or is unreadable; those
  // of the pager. Of a unit that takes no part in a run, products are zeros.
  Result<std::vector<Tensor>> run(const std::vector<const Tensor*>& inputs,
                                  const RunProbes& probes);
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs, const Probe& probe = {});
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs, const RunProbes& probes);

  // Sets all states to zero.
  void reset();
  // The declared state of this name, or null.
  const Tensor* state(std::string_view name) const;
  // Sets a declared state. Errors: reference.unknown_state, reference.state_type.
  Status set_state(std::string_view name, Tensor value);

  const Shard& shard() const;
  const ExecutorMemory& memory() const;
  // From now on a large weight gives its memory back after each op that takes it.
  void release_weights_after_use();

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Runs a shard once. Its weights must need no files.
Result<std::vector<Tensor>> evaluate(const Shard& shard, const std::vector<Tensor>& inputs,
                                     Precision precision = Precision::f32);

// Random inputs for a shard: a pure function of the shard's interface and the seed. Floats are
// uniform in [-1, 1) and integers are 0 … 7, except for inputs of these names:
//   …write_mask  [1, 1, S, T]  one-hot: the T new tokens go to T rows in a row
//   …mask        [1, 1, T, S]  causal: query t of T sees the keys up to S - T + t
//   …routing…    about half of the elements are 0, the others in (0, 1)
std::vector<Tensor> seeded_inputs(const Shard& shard, uint64_t seed);

}  // namespace moec
