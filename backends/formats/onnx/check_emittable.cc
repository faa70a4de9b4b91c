#include <fmt/format.h>

#include "backends/emit/op_tables.h"
#include "backends/emit/shard_facts.h"
#include "backends/formats/onnx/graph_writer.h"
#include "backends/formats/onnx/onnx_types.h"
#include "backends/formats/onnx/write_onnx_codes.h"

namespace moec {
namespace {

// True if the ONNX op supports bfloat16. Opset 17 uses the Conv and TopK of opset 11, which lack
// it, and onnxruntime's MoE and QMoE have no CPU kernel for it. Every op is listed, so that a new
// op does not compile until it is added here.
struct TakesBf16 {
  template <OneOf<Conv, TopK, Moe> OpT>
  bool operator()(const OpT&) const {
    return false;
  }
  template <OneOf<Weight, Constant, MatMul, Unary, Binary, Compare, Select, Cast, Reduce, Softmax,
                  Slice, Concat, Reshape, Transpose, StateRead, StateWrite>
                OpT>
  bool operator()(const OpT&) const {
    return true;
  }
  template <LoweredOp OpT>
  bool operator()(const OpT&) const {
    return true;  // never in a placed shard
  }
};

Status check_dtypes(const Shard& shard) {
  for (OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    for (ValueId value : op.results) {
      const DType dtype = shard.type(value).dtype;
      if (onnx_dtype(dtype) && (dtype != DType::bf16 || std::visit(TakesBf16{}, op.data))) continue;
      return fail("emit.dtype",
                  fmt::format("ONNX opset 17 does not define {} for {}", mnemonic(op.data),
                              dtype_name(dtype)),
                  "export with dtype f32 or f16", place_of(shard, op));
    }
  }
  return {};
}

Status check_ports(const Shard& shard) {
  for (const Output& output : shard.outputs)
    for (ValueId input : shard.inputs)
      // An input that is returned under its own name needs no second tensor.
      if (shard.values[input].name == output.name && input != output.value)
        return fail(
            "emit.port_name",
            fmt::format("output \"{}\" has the name of an input, which ONNX forbids", output.name),
            "rename one of the two ports", {.shard = shard.name});
  return {};
}

}  // namespace

Status check_emittable(const Shard& shard) {
  MOEC_TRY(check_placed(shard));
  MOEC_TRY(check_stateless(shard, "ONNX"));
  MOEC_TRY(check_encoded(shard));
  MOEC_TRY(check_dtypes(shard));
  MOEC_TRY(check_constants(shard));
  return check_ports(shard);
}

}  // namespace moec
