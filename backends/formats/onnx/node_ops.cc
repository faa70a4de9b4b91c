#include "backends/formats/onnx/node_ops.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>

#include "backends/formats/onnx/node_attributes.h"
#include "backends/formats/onnx/tensor_data.h"

namespace moec {
namespace {

using onnx::NodeProto;
using Handler = Result<OpData> (*)(const NodeProto&, const NodeContext&, Attributes&);

// Reports an input that must be a constant with a supported value.
tl::unexpected<Diagnostics> fail_inputs(const NodeProto& node, std::string cause) {
  return fail("onnx.constant_input", std::move(cause), "export the model again",
              {.op = node.name()});
}

// Negative axes count from the end. infer() rejects axes that remain out of range.
int64_t from_front(int64_t axis, const Type& type) { return axis < 0 ? axis + type.rank() : axis; }

// Returns the only element of a constant input, such as k or an axis.
Result<int64_t> single(const NodeProto& node, const NodeContext& context, int input) {
  MOEC_ASSIGN(const std::vector<int64_t> values, context.integers(input));
  if (values.size() != 1)
    return fail_inputs(node, fmt::format("{} requires a single value as input {}, got {}",
                                         node.op_type(), input, values.size()));
  return values.front();
}

template <UnaryFn fn>
Result<OpData> unary(const NodeProto&, const NodeContext&, Attributes&) {
  return Unary{fn};
}
template <BinaryFn fn>
Result<OpData> binary(const NodeProto&, const NodeContext&, Attributes&) {
  return Binary{fn};
}
template <CompareFn fn>
Result<OpData> compare(const NodeProto&, const NodeContext&, Attributes&) {
  return Compare{fn};
}
template <class OpT>
Result<OpData> plain(const NodeProto&, const NodeContext&, Attributes&) {
  return OpT{};
}

Result<OpData> cast(const NodeProto& node, const NodeContext&, Attributes& attributes) {
  MOEC_ASSIGN(const int64_t to, attributes.integer("to"));
  MOEC_ASSIGN(const DType dtype, dtype_of(to, node.name()));
  return Cast{dtype};
}

// kernel_shape is redundant; a value that contradicts the weight is an error.
Result<OpData> conv(const NodeProto&, const NodeContext& context, Attributes& attributes) {
  MOEC_TRY(attributes.must_be("auto_pad", std::string("NOTSET")));
  MOEC_TRY(attributes.must_all_be("strides", 1));
  MOEC_TRY(attributes.must_all_be("dilations", 1));
  MOEC_TRY(attributes.must_all_be("pads", 0));
  MOEC_ASSIGN(const std::vector<int64_t> kernel, attributes.integers("kernel_shape"));
  if (!kernel.empty() && context.inputs.size() > 1) {
    const Dims& w = context.inputs[1].dims;
    if (w.size() != 4 || kernel != Dims{w[2], w[3]})
      return fail("onnx.attribute", "kernel_shape differs from the sizes of the weight",
                  "export the model again");
  }
  MOEC_ASSIGN(const int64_t groups, attributes.integer("group", 1));
  return Conv{groups};
}

Result<OpData> reduce_over(ReduceFn fn, std::vector<int64_t> axes, const NodeProto& node,
                           const NodeContext& context, Attributes& attributes) {
  MOEC_TRY(attributes.must_be("keepdims", 1));
  if (axes.size() != 1)
    return fail_inputs(
        node, fmt::format("a reduction over {} axes is unsupported, expected one", axes.size()));
  return Reduce{fn, from_front(axes.front(), context.inputs[0])};
}

template <ReduceFn fn>
// Before opset 18, the axes of ReduceMean and ReduceMax are an attribute.
Result<OpData> reduce(const NodeProto& node, const NodeContext& context, Attributes& attributes) {
  MOEC_ASSIGN(std::vector<int64_t> axes, attributes.integers("axes"));
  return reduce_over(fn, std::move(axes), node, context, attributes);
}

// Since opset 13, the axes of ReduceSum are an input. Without axes, ReduceSum would reduce all
// axes.
Result<OpData> reduce_sum(const NodeProto& node, const NodeContext& context,
                          Attributes& attributes) {
  MOEC_TRY(attributes.must_be("noop_with_empty_axes", 0));
  MOEC_ASSIGN(std::vector<int64_t> axes, context.integers(1));
  return reduce_over(ReduceFn::sum, std::move(axes), node, context, attributes);
}

Result<OpData> softmax(const NodeProto&, const NodeContext& context, Attributes& attributes) {
  MOEC_ASSIGN(const int64_t axis, attributes.integer("axis", -1));
  return Softmax{from_front(axis, context.inputs[0])};
}

// The IR returns the largest elements in descending order, so other variants are refused.
Result<OpData> topk(const NodeProto& node, const NodeContext& context, Attributes& attributes) {
  MOEC_TRY(attributes.must_be("largest", 1));
  MOEC_TRY(attributes.must_be("sorted", 1));
  MOEC_ASSIGN(const int64_t axis, attributes.integer("axis", -1));
  MOEC_ASSIGN(const int64_t k, single(node, context, 1));
  return TopK{k, from_front(axis, context.inputs[0])};
}

Result<OpData> slice(const NodeProto& node, const NodeContext& context, Attributes&) {
  MOEC_ASSIGN(int64_t begin, single(node, context, 1));
  MOEC_ASSIGN(int64_t end, single(node, context, 2));
  MOEC_ASSIGN(int64_t axis, single(node, context, 3));
  const Type& x = context.inputs[0];
  axis = from_front(axis, x);
  if (axis < 0 || axis >= x.rank())
    return fail_inputs(node, fmt::format("axis {} is outside {}", axis, to_string(x)));
  // The fifth input, the steps, is optional and 1 by default.
  if (node.input_size() > 4) {
    MOEC_ASSIGN(const int64_t step, single(node, context, 4));
    if (step != 1) return fail_inputs(node, "a slice with a step other than 1 is unsupported");
  }
  const int64_t extent = x.dims.at(axis);
  // As ONNX defines: negative numbers count from the end, and numbers beyond the axis are clamped.
  // INT64_MAX is a common way to write "to the end".
  auto clamped = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + extent : i, 0, extent); };
  begin = clamped(begin);
  end = clamped(end);
  // An end before the begin gives a negative size, which infer() rejects.
  return Slice{axis, begin, end - begin};
}

Result<OpData> concat(const NodeProto&, const NodeContext& context, Attributes& attributes) {
  MOEC_ASSIGN(const int64_t axis, attributes.integer("axis"));
  return Concat{from_front(axis, context.inputs[0])};
}

// infer() rejects sizes of 0 and −1, which ONNX derives from the input.
Result<OpData> reshape(const NodeProto&, const NodeContext& context, Attributes& attributes) {
  MOEC_TRY(attributes.must_be("allowzero", 0));
  MOEC_ASSIGN(std::vector<int64_t> dims, context.integers(1));
  return Reshape{std::move(dims), context.layout};
}

Result<OpData> transpose(const NodeProto&, const NodeContext& context, Attributes& attributes) {
  MOEC_ASSIGN(std::vector<int64_t> perm, attributes.integers("perm"));
  if (perm.empty())  // the ONNX default reverses the axes
    for (size_t axis = context.inputs[0].rank(); axis-- > 0;)
      perm.push_back(static_cast<int64_t>(axis));
  return Transpose{std::move(perm), context.layout};
}

struct NodeKind {
  Handler read;
  int operands;  // number of leading inputs that are operands; the others are sizes and axes
};
// Larger than any number of inputs; operand_count() uses the minimum of both.
constexpr int kAll = 1 << 30;

// Rejects nodes that are not in the table, because a wrong guess would change results silently.
const std::map<std::string_view, NodeKind>& node_kinds() {
  static const std::map<std::string_view, NodeKind> kinds = {
      {"Neg", {unary<UnaryFn::neg>, kAll}},
      {"Abs", {unary<UnaryFn::abs>, kAll}},
      {"Exp", {unary<UnaryFn::exp>, kAll}},
      {"Log", {unary<UnaryFn::log>, kAll}},
      {"Sqrt", {unary<UnaryFn::sqrt>, kAll}},
      {"Reciprocal", {unary<UnaryFn::reciprocal>, kAll}},
      {"Sigmoid", {unary<UnaryFn::sigmoid>, kAll}},
      {"Tanh", {unary<UnaryFn::tanh>, kAll}},
      {"Erf", {unary<UnaryFn::erf>, kAll}},
      {"Add", {binary<BinaryFn::add>, kAll}},
      {"Sub", {binary<BinaryFn::sub>, kAll}},
      {"Mul", {binary<BinaryFn::mul>, kAll}},
      {"Div", {binary<BinaryFn::div>, kAll}},
      {"Max", {binary<BinaryFn::max>, kAll}},
      {"Min", {binary<BinaryFn::min>, kAll}},
      {"Greater", {compare<CompareFn::greater>, kAll}},
      {"Less", {compare<CompareFn::less>, kAll}},
      {"Equal", {compare<CompareFn::equal>, kAll}},
      {"Where", {plain<Select>, kAll}},
      {"MatMul", {plain<MatMul>, kAll}},
      {"Cast", {cast, kAll}},
      {"Conv", {conv, kAll}},
      {"ReduceSum", {reduce_sum, 1}},
      {"ReduceMean", {reduce<ReduceFn::mean>, kAll}},
      {"ReduceMax", {reduce<ReduceFn::max>, kAll}},
      {"Softmax", {softmax, kAll}},
      {"TopK", {topk, 1}},
      {"Slice", {slice, 1}},
      {"Concat", {concat, kAll}},
      {"Reshape", {reshape, 1}},
      {"Transpose", {transpose, kAll}},
  };
  return kinds;
}

}  // namespace

Result<int> operand_count(const NodeProto& node) {
  const auto kind = node_kinds().find(node.op_type());
  // "ai.onnx" is the long form of the default domain.
  const bool own_domain = node.domain().empty() || node.domain() == "ai.onnx";
  if (!own_domain || kind == node_kinds().end())
    return fail("onnx.op",
                fmt::format("op {}{}{} is unsupported", node.domain(),
                            own_domain ? "" : "::", node.op_type()),
                "use a model with only ops that moec writes", {.op = node.name()});
  if (node.input_size() == 0)
    return fail("onnx.op", fmt::format("{} has no input", node.op_type()), "export the model again",
                {.op = node.name()});
  return std::min(kind->second.operands, node.input_size());
}

Result<OpData> read_op(const NodeProto& node, const NodeContext& context) {
  Attributes attributes(node);
  // The caller has called operand_count(), which fails for unknown nodes, so the entry exists.
  MOEC_ASSIGN(OpData op, node_kinds().at(node.op_type()).read(node, context, attributes));
  MOEC_TRY(attributes.finish());
  return op;
}

}  // namespace moec
