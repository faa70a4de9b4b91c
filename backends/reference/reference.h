// The reference executor: runs a shard on values in memory and evaluates each op by its definition
// in ir/graph/ops.h. It favors clarity over speed. It computes composites directly instead of
// lowering them, so that it can test the passes that lower them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/weights/views/weight_pager.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/shard.h"

namespace moec {

class Products;  // backends/reference/products.h

// Elements in row-major order. Bools are 0 and 1; integers are exact below 2^24.
struct Tensor {
  Type type;
  std::vector<float> data;
  // If not empty, the elements as binary16 instead of `data`. Only inputs of a run have this form;
  // the run widens the elements that it reads.
  std::vector<uint16_t> halves;

  size_t elements() const { return halves.empty() ? data.size() : halves.size(); }
  bool operator==(const Tensor&) const = default;
};

// f32: each op computes in f32; a result of type f16 or bf16 is rounded to that type.
// f16: all values of float types, including inputs, weights and constants, are rounded to binary16.
enum class Precision : uint8_t { f32, f16 };
constexpr auto enum_names(Precision) { return name_table<Precision>({"f32", "f16"}); }

struct ExecutorOptions {
  Precision precision = Precision::f32;
  // Maximum bytes of the shard's values in memory at any time, as f32. Large weights that stay in
  // their files do not count.
  uint64_t memory_limit = uint64_t{16} << 30;
  // Manages the weights that are paged in per run instead of being read on creation; may be null.
  // Must outlive the executor.
  WeightPager* pager = nullptr;
  // Matrix product kernels, which can also read codes in their stored form; null: the reference's
  // own products. Must outlive the executor.
  const Products* products = nullptr;
  // Suffixes of the labels of values that a probe needs; used only with kernels. With kernels, a
  // part of the shard that only some tokens need (backends/reference/gates.h) is computed for those
  // tokens alone, and the probe is not called for its inner values. A part that contains a watched
  // value is computed for all tokens.
  std::vector<std::string> watched;
};

// Memory of a shard in bytes.
struct ExecutorMemory {
  uint64_t held = 0;     // while the shard is loaded: graph, constants, and small weights as f32
  uint64_t mapped = 0;   // mapped parts of files, once a run has read all large weights
  uint64_t largest = 0;  // maximum part of `mapped` that one op uses
  uint64_t run = 0;      // additional bytes during a run: values between ops
  // With kernels: bytes, as f32, of large coded weights that no kernel reads, by stored form
  // (code_form.h). Part of `held`.
  std::map<std::string, uint64_t> widened;
};

// Called once per value with its label (Shard::label): first the inputs, then the results of each
// op in order, including constants and the weights that are in memory, but not inputs with
// Tensor::halves.
using Probe = std::function<void(std::string_view label, const Tensor& value)>;

// Token rows [tokens, inputs] to which a weight matrix is applied.
struct MatrixInput {
  std::string_view matrix;  // label of the weight
  int64_t inputs = 0;
  std::span<const float> rows;
};
// Called for each matrix of linear, gated_mlp and soft_moe in the order of their application. The
// matrices of an expert receive the tokens that chose it.
using MatrixProbe = std::function<void(const MatrixInput& input)>;

// Output of a soft_moe expert for the tokens that chose it: one row per element of `tokens`.
struct ExpertRows {
  int64_t expert = 0;               // index in the layer
  std::span<const int64_t> tokens;  // indices among the shard's tokens
  std::span<const float> weights;   // routing weights of these tokens
  // [tokens, hidden]; already multiplied by the weights if `weight_on` is RoutedWeight::input.
  std::span<const float> input;
  std::span<const float> inner;   // [tokens, width of the expert], input of its down matrix
  std::span<const float> output;  // [tokens, hidden], output of the down matrix with its bias
  RoutedWeight weight_on = RoutedWeight::output;
};
// Called for each expert that a token chose.
using ExpertProbe = std::function<void(const ExpertRows& rows)>;

// Callbacks of a run; each may be empty.
struct RunProbes {
  Probe values;
  MatrixProbe matrices;
  ExpertProbe experts;
};

// A shard with its weights, for repeated runs. A large weight stays in its memory-mapped file if
// only convolutions and matrix products use it and it is stored as f32, f16 or bf16 (with kernels,
// also as codes). All other weights are loaded. Declared states start as zeros and keep their
// values between runs.
class Executor {
 public:
  // The shard must be valid (ir/verify). Computes all values that depend only on weights and
  // constants once. Errors: those of WeightReader, reference.too_large.
  static Result<Executor> create(const Shard& shard, const WeightReader& weights,
                                 const ExecutorOptions& options = {});
  // As above, but also opens the files of the table.
  static Result<Executor> create(const Shard& shard, const WeightTable& weights,
                                 const ExecutorOptions& options = {});

  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  // Inputs and results are in the order of Shard::inputs and Shard::outputs. A run reads the inputs
  // in place and copies only those that it must round. Products with weights of a pager unit that
  // is not part of the run are zero. Errors: reference.input_count; reference.input_type (element
  // type or sizes differ; layouts may); weights.file_changed and weights.read (a changed, truncated
  // or unreadable file); those of the pager.
  Result<std::vector<Tensor>> run(const std::vector<const Tensor*>& inputs,
                                  const RunProbes& probes);
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs, const Probe& probe = {});
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs, const RunProbes& probes);

  // Sets all states to zero.
  void reset();
  // Returns the declared state of this name, or null.
  const Tensor* state(std::string_view name) const;
  // Sets a declared state. Errors: reference.unknown_state, reference.state_type.
  Status set_state(std::string_view name, Tensor value);

  const Shard& shard() const;
  const ExecutorMemory& memory() const;
  // Makes subsequent runs release the memory of each large weight after the op that uses it.
  void release_weights_after_use();

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Runs a shard once. The shard's weights must not refer to files.
Result<std::vector<Tensor>> evaluate(const Shard& shard, const std::vector<Tensor>& inputs,
                                     Precision precision = Precision::f32);

// Returns pseudo-random inputs for a shard, determined by its interface and the seed. Floats are
// uniform in [-1, 1) and integers are 0 … 7, except for inputs with these names:
//   …write_mask  [1, 1, S, T]  one-hot: the T new tokens are written to T consecutive rows
//   …mask        [1, 1, T, S]  causal: query t of T sees the keys up to S - T + t
//   …routing…    about half of the elements are 0, the others lie in (0, 1)
std::vector<Tensor> seeded_inputs(const Shard& shard, uint64_t seed);

}  // namespace moec
