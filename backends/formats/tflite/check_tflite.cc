#include "backends/formats/tflite/check_tflite.h"

#include <fmt/format.h>

#include <limits>

#include "backends/emit/op_tables.h"
#include "backends/emit/shard_facts.h"
#include "backends/formats/tflite/fused_forms.h"
#include "backends/formats/tflite/tflite_codes.h"
#include "backends/formats/tflite/tflite_types.h"

namespace moec {
namespace {

// The reason why TFLite has no such op, and the next step; empty if it has one.
struct Refusal {
  std::string cause, next_step;
  bool empty() const { return cause.empty(); }
};

// One overload per op.
class OpCheck {
 public:
  OpCheck(const Shard& shard, const Op& op) : shard_(shard), op_(op) {}

  Refusal operator()(const Unary& unary) const {
    if (unary.fn != UnaryFn::erf) return {};
    return {"TFLite has no erf outside of a gelu: x · (erf(x / √2) + 1) / 2",
            "export for a target with another format, such as onnx"};
  }
  Refusal operator()(const Softmax& softmax) const { return last_axis(softmax.axis); }
  Refusal operator()(const TopK& topk) const { return last_axis(topk.axis); }
  Refusal operator()(const Moe&) const {
    return {"TFLite has no moe", "export with --routing rank"};
  }
  template <class OpT>
  requires InGroup<OpT, OpGroup::state> Refusal operator()(const OpT&) const {
    return {};  // check_stateless() has rejected it
  }
  template <class OpT>
  requires OneOf<OpT, Weight, Constant, Conv, MatMul, Binary, Compare, Select, Cast, Reduce, Slice,
                 Concat, Reshape, Transpose>
      Refusal operator()(const OpT&) const {
    return {};
  }
  template <LoweredOp OpT>
  Refusal operator()(const OpT&) const {
    return {};  // never in a placed shard
  }

 private:
  Refusal last_axis(int64_t axis) const {
    const Type& x = shard_.type(op_.operands[0]);
    if (axis == x.rank() - 1) return {};
    return {fmt::format("TFLite's {} works along the last axis, not along axis {} of {}",
                        mnemonic(op_.data), axis, to_string(x)),
            "export with --form matmul"};
  }

  const Shard& shard_;
  const Op& op_;
};

Status check_ops(const Shard& shard) {
  const IdMap<OpId, uint8_t> needed = needed_ops(shard);
  for (const OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    if (!needed[id]) continue;
    const Refusal refusal = std::visit(OpCheck(shard, op), op.data);
    if (!refusal.empty())
      return fail("emit.op", refusal.cause, refusal.next_step, place_of(shard, op));
  }
  return {};
}

// LiteRT has no bf16 kernels: FULLY_CONNECTED refuses such weights (ai-edge-litert 2.3.0).
bool is_supported(DType dtype) { return tflite_dtype(dtype) && dtype != DType::bf16; }

bool fits_i32(const Dims& dims) {
  for (const int64_t size : dims)
    if (size > std::numeric_limits<int32_t>::max()) return false;
  return true;
}

Status check_types(const Shard& shard) {
  for (const Value& value : shard.values) {
    const Place place{.shard = shard.name, .op = value.name};
    if (!is_supported(value.type.dtype))
      return fail("emit.dtype",
                  fmt::format("LiteRT has no kernels for {}", dtype_name(value.type.dtype)),
                  "export with dtype f32 or f16", place);
    if (!fits_i32(value.type.dims))
      return fail("emit.dtype", fmt::format("a size of {} exceeds 2^31 - 1", to_string(value.type)),
                  "split the shard", place);
  }
  return {};
}

}  // namespace

Status check_tflite(const Shard& shard) {
  MOEC_TRY(check_placed(shard));
  MOEC_TRY(check_stateless(shard, "TFLite"));
  MOEC_TRY(check_codes(shard));
  MOEC_TRY(check_types(shard));
  MOEC_TRY(check_ops(shard));
  return check_constants(shard);
}

}  // namespace moec
