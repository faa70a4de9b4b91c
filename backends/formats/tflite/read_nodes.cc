#include "backends/formats/tflite/read_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "backends/formats/tflite/tflite_types.h"

namespace moec {
namespace {

using tflite::Operator;
using Handler = Result<OpData> (*)(const Operator&, const NodeInputs&);

tl::unexpected<Diagnostics> fail_option(std::string cause) {
  return fail("tflite.option", std::move(cause), "export the model without this option");
}

template <class Options>
Status check_activation(const Options* options) {
  if (!options || options->fused_activation() == 0) return {};
  return fail_option("a fused activation is unsupported");
}

// Negative axes count from the end. infer() rejects axes that remain out of range.
int64_t from_front(int64_t axis, const Type& type) { return axis < 0 ? axis + type.rank() : axis; }

template <UnaryFn fn>
Result<OpData> unary(const Operator&, const NodeInputs&) {
  return Unary{fn};
}
template <BinaryFn fn>
Result<OpData> binary(const Operator& node, const NodeInputs&) {
  MOEC_TRY(check_activation(node.builtin_options_as_AddOptions()));
  MOEC_TRY(check_activation(node.builtin_options_as_SubOptions()));
  MOEC_TRY(check_activation(node.builtin_options_as_MulOptions()));
  MOEC_TRY(check_activation(node.builtin_options_as_DivOptions()));
  return Binary{fn};
}
template <CompareFn fn>
Result<OpData> compare(const Operator&, const NodeInputs&) {
  return Compare{fn};
}

Result<OpData> select(const Operator&, const NodeInputs&) { return Select{}; }

Result<OpData> matmul(const Operator& node, const NodeInputs&) {
  const auto* options = node.builtin_options_as_BatchMatMulOptions();
  if (options && (options->adj_x() || options->adj_y()))
    return fail_option("a BATCH_MATMUL of transposed operands is unsupported");
  return MatMul{};
}

// The options may be absent, and LiteRT ignores them: the result's type decides.
Result<OpData> cast(const Operator&, const NodeInputs& inputs) { return Cast{inputs.result.dtype}; }

template <ReduceFn fn>
Result<OpData> reduce(const Operator& node, const NodeInputs& inputs) {
  const auto* options = node.builtin_options_as_ReducerOptions();
  if (!options || !options->keep_dims())
    return fail_option("a reduction that removes its axis is unsupported");
  MOEC_ASSIGN(const std::vector<int64_t> axes, inputs.integers(1));
  if (axes.size() != 1)
    return fail("tflite.constant_input",
                fmt::format("a reduction over {} axes is unsupported, expected one", axes.size()),
                "export the model again");
  return Reduce{fn, from_front(axes.front(), inputs.operands[0])};
}

// TFLite's softmax works along the last axis.
Result<OpData> softmax(const Operator& node, const NodeInputs& inputs) {
  const auto* options = node.builtin_options_as_SoftmaxOptions();
  if (!options || options->beta() != 1) return fail_option("a softmax with beta other than 1");
  return Softmax{inputs.operands[0].rank() - 1};
}

Result<OpData> slice(const Operator&, const NodeInputs& inputs) {
  const Dims& dims = inputs.operands[0].dims;
  MOEC_ASSIGN(const std::vector<int64_t> begins, inputs.integers(1));
  MOEC_ASSIGN(const std::vector<int64_t> sizes, inputs.integers(2));
  if (begins.size() != dims.size() || sizes.size() != dims.size() || dims.empty())
    return fail("tflite.constant_input", "a slice must have a begin and a size for each axis",
                "export the model again");
  Slice cut{0, 0, dims.at(0)};
  int cuts = 0;
  for (int64_t axis = 0; axis < dims.rank(); ++axis) {
    // A size of -1 keeps the rest of the axis.
    const int64_t begin = at(begins, axis);
    const int64_t size = at(sizes, axis) == -1 ? dims.at(axis) - begin : at(sizes, axis);
    if (begin == 0 && size == dims.at(axis)) continue;
    cut = {axis, begin, size};
    ++cuts;
  }
  if (cuts <= 1) return cut;
  return fail("tflite.constant_input",
              fmt::format("a slice along {} axes is unsupported, expected one", cuts),
              "export the model again");
}

Result<OpData> concat(const Operator& node, const NodeInputs& inputs) {
  const auto* options = node.builtin_options_as_ConcatenationOptions();
  if (!options) return fail_option("a concatenation without an axis");
  MOEC_TRY(check_activation(options));
  return Concat{from_front(options->axis(), inputs.operands[0])};
}

// The new shape is an input, or, in files of other tools, an option. infer() rejects sizes of -1.
Result<OpData> reshape(const Operator& node, const NodeInputs& inputs) {
  if (node.inputs()->size() > 1) {
    MOEC_ASSIGN(std::vector<int64_t> dims, inputs.integers(1));
    return Reshape{std::move(dims), inputs.result.layout};
  }
  const auto* options = node.builtin_options_as_ReshapeOptions();
  if (!options || !options->new_shape() || options->new_shape()->size() > kMaxRank)
    return fail_option("a reshape without a new shape");
  return Reshape{Dims(options->new_shape()->begin(), options->new_shape()->end()),
                 inputs.result.layout};
}

Result<OpData> transpose(const Operator&, const NodeInputs& inputs) {
  MOEC_ASSIGN(std::vector<int64_t> perm, inputs.integers(1));
  return Transpose{std::move(perm), inputs.result.layout};
}

struct NodeKind {
  Handler read;
  uint32_t operands;  // number of leading inputs that are operands; the others are sizes and axes
};
// Larger than any number of inputs; operand_count() uses the minimum of both.
constexpr uint32_t kAll = UINT32_MAX;

std::map<Builtin, NodeKind> make_kinds() {
  std::map<Builtin, NodeKind> kinds = {
      {Builtin::DIV, {binary<BinaryFn::div>, 2}},
      {Builtin::ADD, {binary<BinaryFn::add>, 2}},
      {Builtin::SUB, {binary<BinaryFn::sub>, 2}},
      {Builtin::MUL, {binary<BinaryFn::mul>, 2}},
      {Builtin::MAXIMUM, {binary<BinaryFn::max>, 2}},
      {Builtin::MINIMUM, {binary<BinaryFn::min>, 2}},
      {Builtin::GREATER, {compare<CompareFn::greater>, 2}},
      {Builtin::LESS, {compare<CompareFn::less>, 2}},
      {Builtin::EQUAL, {compare<CompareFn::equal>, 2}},
      {Builtin::SUM, {reduce<ReduceFn::sum>, 1}},
      {Builtin::MEAN, {reduce<ReduceFn::mean>, 1}},
      {Builtin::REDUCE_MAX, {reduce<ReduceFn::max>, 1}},
      {Builtin::NEG, {unary<UnaryFn::neg>, 1}},
      {Builtin::ABS, {unary<UnaryFn::abs>, 1}},
      {Builtin::EXP, {unary<UnaryFn::exp>, 1}},
      {Builtin::LOG, {unary<UnaryFn::log>, 1}},
      {Builtin::SQRT, {unary<UnaryFn::sqrt>, 1}},
      {Builtin::LOGISTIC, {unary<UnaryFn::sigmoid>, 1}},
      {Builtin::TANH, {unary<UnaryFn::tanh>, 1}},
      {Builtin::SELECT_V2, {select, 3}},
      {Builtin::BATCH_MATMUL, {matmul, 2}},
      {Builtin::CAST, {cast, 1}},
      {Builtin::SOFTMAX, {softmax, 1}},
      {Builtin::SLICE, {slice, 1}},
      {Builtin::CONCATENATION, {concat, kAll}},
      {Builtin::RESHAPE, {reshape, 1}},
      {Builtin::TRANSPOSE, {transpose, 1}},
  };
  // SubgraphReader reads these; only the number of operands counts.
  kinds[Builtin::FULLY_CONNECTED] = {nullptr, 2};
  kinds[Builtin::CONV_2D] = {nullptr, 2};
  for (const Builtin one : {Builtin::GELU, Builtin::BROADCAST_TO, Builtin::TOPK_V2})
    kinds[one] = {nullptr, 1};
  return kinds;
}

// Rejects operators that are not in the table, because a wrong guess would change results silently.
const std::map<Builtin, NodeKind>& node_kinds() {
  static const std::map<Builtin, NodeKind> kinds = make_kinds();
  return kinds;
}

}  // namespace

Result<uint32_t> operand_count(Builtin code, const Operator& node) {
  const auto kind = node_kinds().find(code);
  if (kind == node_kinds().end())
    return fail("tflite.op",
                fmt::format("builtin operator {} is unsupported", static_cast<int>(code)),
                "use a model with only ops that moec writes");
  const uint32_t inputs = node.inputs() ? node.inputs()->size() : 0;
  const uint32_t needed = kind->second.operands == kAll ? 1 : kind->second.operands;
  if (inputs >= needed && node.outputs() && node.outputs()->size() > 0)
    return std::min(kind->second.operands, inputs);
  return fail("tflite.op",
              fmt::format("{} has {} inputs, expected at least {} and an output",
                          tflite::EnumNameBuiltin(code), inputs, needed),
              "export the model again");
}

Result<OpData> read_node(Builtin code, const Operator& node, const NodeInputs& inputs) {
  // The caller has called operand_count(), which fails for unknown operators.
  return node_kinds().at(code).read(node, inputs);
}

Status check_fully_connected(const Operator& node, int64_t rank) {
  const auto* options = node.builtin_options_as_FullyConnectedOptions();
  MOEC_TRY(check_activation(options));
  if (options && options->weights_format() != 0)
    return fail_option("shuffled weights of a FULLY_CONNECTED are unsupported");
  if (rank > 2 && (!options || !options->keep_num_dims()))
    return fail_option("a FULLY_CONNECTED that removes axes is unsupported");
  return {};
}

Status check_conv(const Operator& node) {
  const auto* options = node.builtin_options_as_Conv2DOptions();
  MOEC_TRY(check_activation(options));
  const bool plain = options && options->padding() == tflite::Padding::VALID &&
                     options->stride_w() == 1 && options->stride_h() == 1 &&
                     options->dilation_w() == 1 && options->dilation_h() == 1;
  return plain ? Status() : fail_option("a CONV_2D with padding, strides or dilations");
}

Status check_gelu(const Operator& node) {
  const auto* options = node.builtin_options_as_GeluOptions();
  if (!options || !options->approximate()) return {};
  return fail_option("an approximate GELU is unsupported");
}

}  // namespace moec
