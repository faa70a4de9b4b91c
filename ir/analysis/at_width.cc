#include "ir/analysis/at_width.h"

#include <fmt/format.h>

#include "ir/base/invariant.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace moec {
namespace {

class Interpolation {
 public:
  Interpolation(const WidthSample& a, const WidthSample& b, int64_t tokens)
      : a_(a), b_(b), tokens_(tokens) {}

  Result<Shard> run() {
    const Shard& a = *a_.shard;
    const Shard& b = *b_.shard;
    if (a.values.size() != b.values.size() || a.ops.size() != b.ops.size() ||
        a.inputs != b.inputs || a.outputs != b.outputs || a.states != b.states)
      return differ("their ports, states or numbers of ops differ");
    // A copy of sample a. Its sizes are replaced below by interpolated sizes.
    Shard shard = a;
    for (uint32_t i = 0; i < a.values.size(); ++i)
      fit_value(a.values[ValueId{i}], b.values[ValueId{i}], shard.values[ValueId{i}]);
    // The ops are compared by position, so both samples must come from the same passes.
    for (OpId op : op_ids(a)) fit_op(op, a.ops[op], b.ops[op], shard.ops[op]);
    if (!cause_.empty()) return differ(cause_);
    // Each size is interpolated separately, so verify() must check that the sizes fit together.
    if (Diagnostics findings = verify(shard); has_error(findings)) return fail(std::move(findings));
    return shard;
  }

 private:
  // size(t) = a + (b − a) · (t − t_a) / (t_b − t_a), which must be an integer.
  int64_t fit(int64_t a, int64_t b) {
    const int64_t growth = (b - a) * (tokens_ - a_.tokens), step = b_.tokens - a_.tokens;
    if (growth % step != 0)
      cause_ = fmt::format("sizes {} and {} are not linear in the number of tokens", a, b);
    return a + growth / step;
  }
  void fit(const Dims& a, const Dims& b, Dims& result) {
    if (a.size() != b.size()) return void(cause_ = "their ranks differ");
    for (size_t i = 0; i < a.size(); ++i) result[i] = fit(a[i], b[i]);
  }

  void fit_value(const Value& a, const Value& b, Value& result) {
    if (a.name != b.name || a.producer != b.producer || a.type.dtype != b.type.dtype ||
        a.type.layout != b.type.layout)
      cause_ = fmt::format("value {} differs in more than sizes", a.name);
    fit(a.type.dims, b.type.dims, result.type.dims);
  }

  void fit_op(OpId id, const Op& a, const Op& b, Op& result) {
    // Equal ids of operands and results mean equal connections, because both shards number values
    // in the order of ops.
    const bool same =
        a.data.index() == b.data.index() && a.operands == b.operands && a.results == b.results;
    const bool fits =
        same && std::visit([&](auto& data) { return fit_data(b, data); }, result.data);
    if (!fits) cause_ = fmt::format("op {} differs in more than sizes", op_label(*a_.shard, id));
  }

  // fit_data() checks that an op differs between the samples in sizes only. On entry, `data` has
  // the attributes of sample a; on return, the attributes of the result. Attributes without sizes
  // that depend on the number of tokens must be equal.
  template <FixedOp OpT>
  bool fit_data(const Op& b, OpT& data) {
    return data == std::get<OpT>(b.data);
  }
  bool fit_data(const Op& b, Reshape& data) {
    const auto& other = std::get<Reshape>(b.data);
    const Dims mine = data.dims;
    fit(mine, other.dims, data.dims);
    return data.layout == other.layout;
  }
  bool fit_data(const Op& b, Slice& data) {
    // The position and the size can both depend on the width, as in a slice of the last tokens.
    const auto& other = std::get<Slice>(b.data);
    data.begin = fit(data.begin, other.begin);
    data.size = fit(data.size, other.size);
    return data.axis == other.axis;
  }

  tl::unexpected<Diagnostics> differ(const std::string& cause) const {
    return fail("width.structure",
                fmt::format("the shards for {} and {} tokens do not extend to other widths: {}",
                            a_.tokens, b_.tokens, cause),
                "export each width separately", {.shard = a_.shard->name});
  }

  const WidthSample& a_;
  const WidthSample& b_;
  int64_t tokens_;
  std::string cause_;
};

}  // namespace

Result<Shard> at_width(const WidthSample& a, const WidthSample& b, int64_t tokens) {
  MOEC_CHECK(a.tokens != b.tokens, "two samples for {} tokens", a.tokens);
  return Interpolation(a, b, tokens).run();
}

}  // namespace moec
