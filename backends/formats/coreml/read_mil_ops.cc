#include "backends/formats/coreml/read_mil_ops.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>
#include <map>

#include "backends/formats/coreml/mil_values.h"

namespace moec {
namespace {

using mlmodel::Operation;
// A handler reads the arguments of one operation. The operands are already known, with their types.
using Handler = Result<OpData> (*)(Arguments&, const OperationContext&);

tl::unexpected<Diagnostics> wrong_operation(std::string cause) {
  return fail("coreml.argument", std::move(cause), "export the model again");
}

// Negative axes count from the end. infer() rejects axes that remain out of range.
int64_t from_front(int64_t axis, const Type& type) { return axis < 0 ? axis + type.rank() : axis; }

// ---- Elementwise -------------------------------------------------------------------------------

template <UnaryFn fn>
Result<OpData> unary(Arguments&, const OperationContext&) {
  return Unary{fn};
}
// The IR's log and reciprocal have no epsilon, so only 0 is accepted.
template <UnaryFn fn>
Result<OpData> unary_with_epsilon(Arguments& arguments, const OperationContext&) {
  MOEC_TRY(arguments.must_be("epsilon", 0.0));
  return Unary{fn};
}
template <BinaryFn fn>
Result<OpData> binary(Arguments&, const OperationContext&) {
  return Binary{fn};
}
template <CompareFn fn>
Result<OpData> compare(Arguments&, const OperationContext&) {
  return Compare{fn};
}
Result<OpData> select(Arguments&, const OperationContext&) { return Select{}; }

// MIL has no negation. The metadata mark the products with the scalar −1 that represent one.
Result<OpData> mul(Arguments& arguments, const OperationContext& context) {
  if (context.operands.size() == 2) return Binary{BinaryFn::mul};
  MOEC_TRY(arguments.must_be("y", -1.0));
  return Unary{UnaryFn::neg};
}

Result<OpData> cast(Arguments& arguments, const OperationContext&) {
  MOEC_ASSIGN(const std::string name, arguments.text("dtype"));
  // The type names are those of mil_dtype_name().
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"fp16", DType::f16}, {"fp32", DType::f32}, {"int32", DType::i32}, {"bool", DType::boolean}};
  for (const auto& [known, dtype] : kTypes)
    if (name == known) return Cast{dtype};
  return wrong_operation("dtype of cast must be fp16, fp32, int32 or bool");
}

// ---- Contractions ------------------------------------------------------------------------------

// The IR has only convolutions with stride 1 and without padding or dilation.
Result<OpData> conv(Arguments& arguments, const OperationContext&) {
  MOEC_TRY(arguments.must_be("pad_type", std::string("valid")));
  MOEC_TRY(arguments.must_all_be("strides", 1));
  MOEC_TRY(arguments.must_all_be("dilations", 1));
  MOEC_TRY(arguments.must_all_be("pad", 0));
  MOEC_ASSIGN(const int64_t groups, arguments.integer("groups"));
  return Conv{groups};
}

Result<OpData> matmul(Arguments& arguments, const OperationContext&) {
  MOEC_TRY(arguments.must_be("transpose_x", false));
  MOEC_TRY(arguments.must_be("transpose_y", false));
  return MatMul{};
}

// ---- Along one axis ----------------------------------------------------------------------------

template <ReduceFn fn>
Result<OpData> reduce(Arguments& arguments, const OperationContext& context) {
  // Without keep_dims the axis disappears, which the IR expresses only with a reshape.
  MOEC_TRY(arguments.must_be("keep_dims", true));
  MOEC_ASSIGN(const std::vector<int64_t> axes, arguments.integers("axes"));
  if (axes.size() != 1)
    return wrong_operation(
        fmt::format("a reduction over {} axes is unsupported, expected one", axes.size()));
  return Reduce{fn, from_front(axes.front(), context.operands[0])};
}

Result<OpData> softmax(Arguments& arguments, const OperationContext& context) {
  MOEC_ASSIGN(const int64_t axis, arguments.integer("axis"));
  return Softmax{from_front(axis, context.operands[0])};
}

// ---- Shape -------------------------------------------------------------------------------------

// MIL slices all axes at once; a size of −1 means "to the end". The IR slices one axis: the one
// that is cut, or axis 0 if the slice is the whole value.
Result<OpData> slice(Arguments& arguments, const OperationContext& context) {
  MOEC_ASSIGN(const std::vector<int64_t> begin, arguments.integers("begin"));
  MOEC_ASSIGN(std::vector<int64_t> size, arguments.integers("size"));
  const Type& x = context.operands[0];
  if (x.rank() == 0 || std::ssize(begin) != x.rank() || std::ssize(size) != x.rank())
    return wrong_operation(
        fmt::format("begin and size must have one number per axis of {}", to_string(x)));
  Slice slice{0, 0, x.dims[0]};
  int sliced_axes = 0;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    // A begin at or beyond the end of the axis gives a size below 1, which infer() rejects.
    if (size[i] == -1) size[i] = x.dims[i] - begin[i];
    if (begin[i] == 0 && size[i] == x.dims[i]) continue;
    slice = {static_cast<int64_t>(i), begin[i], size[i]};
    ++sliced_axes;
  }
  if (sliced_axes > 1) return wrong_operation("a slice along several axes is unsupported");
  return slice;
}

Result<OpData> concat(Arguments& arguments, const OperationContext& context) {
  MOEC_TRY(arguments.must_be("interleave", false));
  MOEC_ASSIGN(const int64_t axis, arguments.integer("axis"));
  if (context.operands.empty()) return wrong_operation("concat has no values");
  return Concat{from_front(axis, context.operands[0])};
}

// One size may be −1: it is inferred from the number of elements.
Result<OpData> reshape(Arguments& arguments, const OperationContext& context) {
  MOEC_ASSIGN(Dims dims, arguments.integers("shape"));
  const auto open = std::find(dims.begin(), dims.end(), -1);
  if (open != dims.end()) {
    // With 1 in place of −1, checked_elements() returns the product of the other sizes.
    *open = 1;
    const auto others = checked_elements(dims);
    const int64_t elements = context.operands[0].elements();
    if (!others || elements % *others != 0)
      return wrong_operation(fmt::format("the sizes of shape do not divide the elements of {}",
                                         to_string(context.operands[0])));
    *open = elements / *others;
  }
  return Reshape{std::move(dims), context.layout};
}

Result<OpData> transpose(Arguments& arguments, const OperationContext& context) {
  MOEC_ASSIGN(std::vector<int64_t> perm, arguments.integers("perm"));
  for (int64_t& axis : perm) axis = from_front(axis, context.operands[0]);
  return Transpose{std::move(perm), context.layout};
}

// ---- The table ---------------------------------------------------------------------------------

struct OperationKind {
  std::vector<std::string> operands;  // argument names; "bias?" is optional, "values*" is a list
  Handler read;
};

// Rejects operations that are not in the table, because a wrong guess would change results
// silently.
const std::map<std::string_view, OperationKind>& operation_kinds() {
  static const std::map<std::string_view, OperationKind> kinds = {
      {"abs", {{"x"}, unary<UnaryFn::abs>}},
      {"exp", {{"x"}, unary<UnaryFn::exp>}},
      {"log", {{"x"}, unary_with_epsilon<UnaryFn::log>}},
      {"sqrt", {{"x"}, unary<UnaryFn::sqrt>}},
      {"inverse", {{"x"}, unary_with_epsilon<UnaryFn::reciprocal>}},
      {"sigmoid", {{"x"}, unary<UnaryFn::sigmoid>}},
      {"tanh", {{"x"}, unary<UnaryFn::tanh>}},
      {"erf", {{"x"}, unary<UnaryFn::erf>}},
      {"add", {{"x", "y"}, binary<BinaryFn::add>}},
      {"sub", {{"x", "y"}, binary<BinaryFn::sub>}},
      {"mul", {{"x", "y"}, mul}},
      {"real_div", {{"x", "y"}, binary<BinaryFn::div>}},
      {"maximum", {{"x", "y"}, binary<BinaryFn::max>}},
      {"minimum", {{"x", "y"}, binary<BinaryFn::min>}},
      {"greater", {{"x", "y"}, compare<CompareFn::greater>}},
      {"less", {{"x", "y"}, compare<CompareFn::less>}},
      {"equal", {{"x", "y"}, compare<CompareFn::equal>}},
      {"select", {{"cond", "a", "b"}, select}},
      {"cast", {{"x"}, cast}},
      {"conv", {{"x", "weight", "bias?"}, conv}},
      {"matmul", {{"x", "y"}, matmul}},
      {"reduce_sum", {{"x"}, reduce<ReduceFn::sum>}},
      {"reduce_mean", {{"x"}, reduce<ReduceFn::mean>}},
      {"reduce_max", {{"x"}, reduce<ReduceFn::max>}},
      {"softmax", {{"x"}, softmax}},
      {"slice_by_size", {{"x"}, slice}},
      {"concat", {{"values*"}, concat}},
      {"reshape", {{"x"}, reshape}},
      {"transpose", {{"x"}, transpose}},
  };
  return kinds;
}

// Fails if an operation has blocks, or attributes other than its name.
Status check_attributes(const Operation& operation) {
  for (const auto& [key, value] : operation.attributes()) {
    if (key != "name")
      return fail("coreml.argument",
                  fmt::format("attribute \"{}\" of {} is unsupported", key, operation.type()),
                  "export the model again", {.op = operation_label(operation)});
    MOEC_TRY(text_of(value, key));
  }
  if (operation.blocks().empty()) return {};
  return fail("coreml.op", fmt::format("{} with blocks is unsupported", operation.type()),
              "use a model without control flow", {.op = operation_label(operation)});
}

}  // namespace

Result<std::vector<std::string>> operand_names(const Operation& operation, bool negation) {
  const auto kind = operation_kinds().find(operation.type());
  if (kind == operation_kinds().end())
    return fail("coreml.op", fmt::format("operation {} is unsupported", operation.type()),
                "use a model with only operations that moec writes",
                {.op = operation_label(operation)});
  // Operands are read by name only, so no consts are needed.
  const Consts none;
  Arguments arguments(operation, none);
  std::vector<std::string> names;
  for (std::string parameter : kind->second.operands) {
    const char last = parameter.back();
    if (last == '?' || last == '*') parameter.pop_back();
    if (last == '?' && !arguments.has(parameter)) continue;
    if (parameter == "y" && negation) continue;
    if (last == '*') {
      MOEC_ASSIGN(names, arguments.operands(parameter));
      continue;
    }
    MOEC_ASSIGN(std::string given, arguments.operand(parameter));
    names.push_back(std::move(given));
  }
  return names;
}

Result<OpData> read_op(const Operation& operation, const OperationContext& context) {
  MOEC_TRY(check_attributes(operation));
  // The caller has called operand_names(), which fails for unknown operations, so the entry exists.
  const OperationKind& kind = operation_kinds().find(operation.type())->second;
  Arguments arguments(operation, context.consts);
  for (const std::string& parameter : kind.operands)
    arguments.expect(parameter.substr(0, parameter.find_first_of("?*")));
  MOEC_ASSIGN(OpData op, kind.read(arguments, context));
  MOEC_TRY(arguments.finish());
  return op;
}

}  // namespace moec
