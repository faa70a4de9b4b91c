#include "backends/device/measure_ops.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/reference/reference.h"
#include "ir/base/at.h"
#include "ir/graph/builder.h"

namespace moec {
namespace {

// Values have the type [kRows, n].
constexpr int64_t kRows = 8;
constexpr int64_t kRepetitions = 16;
// Elements that the forecast counts per repetition and element of the value: those of the results,
// or of the operands of reductions.
constexpr int64_t kCountedPerElement = 2;

// Appends the ops of one repetition to `y`, which has the type of `x`. Returns the last result, of
// the same type.
ValueId repeat(Builder& b, ElementWork kind, ValueId x, ValueId y) {
  const int64_t n = b.type(x).dims.back();
  switch (kind) {
    case ElementWork::move:
      return b.concat({b.slice(y, 1, 0, n / 2), b.slice(y, 1, n / 2, n - n / 2)}, 1);
    case ElementWork::transpose:
      return b.transpose(b.transpose(y, {1, 0}), {1, 0});
    case ElementWork::arithmetic:
      return b.mul(b.add(y, x), x);
    case ElementWork::exponential:
      // Values stay between 0 and 1, so that no function returns early.
      return b.softmax(b.unary(UnaryFn::sigmoid, y), 1);
    case ElementWork::reduce:
      // The next repetition reads the whole operand again; the sums are not used.
      b.reduce(ReduceFn::sum, y, 1);
      b.reduce(ReduceFn::max, y, 1);
      return y;
  }
  return y;
}

struct ElementGraph {
  Shard shard;
  double elements = 0;
};

ElementGraph element_graph(ElementWork kind, int64_t n) {
  Builder b("doctor", Form::placed);
  const ValueId x = b.input("x", {DType::f32, {kRows, n}});
  ValueId y = x;
  for (int64_t i = 0; i < kRepetitions; ++i) y = repeat(b, kind, x, y);
  b.output("y", y);
  return {b.finish(), static_cast<double>(kCountedPerElement * kRepetitions * kRows * n)};
}

// A chain of `ops` additions of single elements. If `idle` is set, they depend on constants only,
// so that a run skips them.
Shard chain(int64_t ops, bool idle) {
  Builder b("doctor", Form::placed);
  const Type type{DType::f32, {1, 1}};
  const ValueId x = b.input("x", type);
  const ValueId one = idle ? b.constant(type, {0.5}) : x;
  ValueId y = one;
  for (int64_t i = 0; i < ops; ++i) y = b.add(y, one);
  b.output("y", b.add(y, x));
  return b.finish();
}

// Reads more memory than the caches of usual CPUs have. Between two runs of a graph, a model reads
// its weights, which displace everything that the graph needs.
class Displacer {
 public:
  void operator()() { sum_ = sum_ + std::accumulate(words_.begin(), words_.end(), uint64_t{0}); }

 private:
  std::vector<uint64_t> words_ = std::vector<uint64_t>(size_t{4} << 20, 1);  // 32 MiB
  volatile uint64_t sum_ = 0;  // so that the compiler cannot omit the reads
};

class GraphTimer {
 public:
  GraphTimer(const Products& products, const Repetition& repetition)
      : products_(products), repetition_(repetition) {}

  // Returns the duration of one run, which begins without anything in the caches.
  Result<double> seconds(const Shard& shard) {
    MOEC_ASSIGN(Executor executor,
                Executor::create(shard, WeightTable(), {.products = &products_}));
    std::vector<Tensor> inputs;
    for (const ValueId input : shard.inputs) {
      const Type& type = shard.type(input);
      inputs.push_back({type, std::vector<float>(static_cast<size_t>(type.elements()), 0.5f)});
    }
    std::vector<const Tensor*> pointers;
    for (const Tensor& input : inputs) pointers.push_back(&input);
    const auto run = [&](size_t) -> Status {
      MOEC_TRY(executor.run(pointers, RunProbes()));
      return {};
    };
    return median_seconds(repetition_, run, [this] { displace_(); });
  }

 private:
  Displacer displace_;
  const Products& products_;
  const Repetition& repetition_;
};

// The additional time per additional unit of work. Noise can exceed a small difference.
double slope(double seconds, double more) { return std::max(seconds / more, kLeastSeconds); }

Result<double> measure_elements(GraphTimer& timer, ElementWork kind) {
  // The difference excludes the time per op. The larger size is usual for a hidden state of a few
  // tokens, and fits in the second cache of a CPU.
  const ElementGraph small = element_graph(kind, 16), large = element_graph(kind, 2048);
  MOEC_ASSIGN(const double short_time, timer.seconds(small.shard));
  MOEC_ASSIGN(const double long_time, timer.seconds(large.shard));
  return slope(long_time - short_time, large.elements - small.elements);
}

Result<double> measure_chain(GraphTimer& timer, bool idle) {
  constexpr int64_t kFew = 8, kMany = 264;
  MOEC_ASSIGN(const double few, timer.seconds(chain(kFew, idle)));
  MOEC_ASSIGN(const double many, timer.seconds(chain(kMany, idle)));
  return slope(many - few, kMany - kFew);
}

}  // namespace

Status measure_ops(const Products& products, const Repetition& repetition, DeviceProfile& profile) {
  GraphTimer timer(products, repetition);
  for (size_t kind = 0; kind < profile.element_seconds.size(); ++kind) {
    MOEC_ASSIGN(at(profile.element_seconds, kind),
                measure_elements(timer, static_cast<ElementWork>(kind)));
  }
  MOEC_ASSIGN(profile.op_seconds, measure_chain(timer, false));
  MOEC_ASSIGN(profile.idle_op_seconds, measure_chain(timer, true));
  MOEC_ASSIGN(const double one_op, timer.seconds(chain(0, false)));
  profile.run_seconds = slope(one_op - profile.op_seconds, 1);
  return {};
}

}  // namespace moec
