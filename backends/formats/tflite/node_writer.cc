#include "backends/formats/tflite/node_writer.h"

#include "backends/emit/op_tables.h"
#include "backends/formats/tflite/tflite_types.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

using tflite::BuiltinOptions;

// Fills a node from an op of the IR: one overload per op.
class NodeFiller {
 public:
  NodeFiller(const Op& op, const Shard& shard, const NodeParts& context, TfliteNode& node)
      : op_(op), shard_(shard), context_(context), builder_(context.builder), node_(node) {}

  void operator()(const Unary& op) const {
    if (op.fn == UnaryFn::reciprocal) {
      // A shape that no division of the IR has, so that readers restore the reciprocal: there, an
      // operand of lower rank is a scalar.
      node_.inputs.insert(node_.inputs.begin(), context_.one(shard_.type(op_.operands[0]).dtype));
      return set(Builtin::DIV, BuiltinOptions::DivOptions, tflite::CreateDivOptions(builder_));
    }
    const std::optional<Builtin> code = at(kUnaryOps, op.fn);
    // check_tflite() rejects an erf outside of a GELU.
    MOEC_CHECK(code, "{} has no TFLite op", enum_name(op.fn));
    switch (op.fn) {
      case UnaryFn::neg:
        return set(*code, BuiltinOptions::NegOptions, tflite::CreateNegOptions(builder_));
      case UnaryFn::abs:
        return set(*code, BuiltinOptions::AbsOptions, tflite::CreateAbsOptions(builder_));
      case UnaryFn::exp:
        return set(*code, BuiltinOptions::ExpOptions, tflite::CreateExpOptions(builder_));
      default:  // the others have no options
        node_.code = *code;
    }
  }

  void operator()(const Binary& op) const {
    const Builtin code = at(kBinaryOps, op.fn);
    switch (op.fn) {
      case BinaryFn::add:
        return set(code, BuiltinOptions::AddOptions, tflite::CreateAddOptions(builder_));
      case BinaryFn::sub:
        return set(code, BuiltinOptions::SubOptions, tflite::CreateSubOptions(builder_));
      case BinaryFn::mul:
        return set(code, BuiltinOptions::MulOptions, tflite::CreateMulOptions(builder_));
      case BinaryFn::div:
        return set(code, BuiltinOptions::DivOptions, tflite::CreateDivOptions(builder_));
      case BinaryFn::max:
      case BinaryFn::min:
        return set(code, BuiltinOptions::MaximumMinimumOptions,
                   tflite::CreateMaximumMinimumOptions(builder_));
    }
  }

  void operator()(const Compare& op) const {
    const Builtin code = at(kCompareOps, op.fn);
    switch (op.fn) {
      case CompareFn::greater:
        return set(code, BuiltinOptions::GreaterOptions, tflite::CreateGreaterOptions(builder_));
      case CompareFn::less:
        return set(code, BuiltinOptions::LessOptions, tflite::CreateLessOptions(builder_));
      case CompareFn::equal:
        return set(code, BuiltinOptions::EqualOptions, tflite::CreateEqualOptions(builder_));
    }
  }

  void operator()(const Select&) const {
    set(Builtin::SELECT_V2, BuiltinOptions::SelectV2Options,
        tflite::CreateSelectV2Options(builder_));
  }

  void operator()(const MatMul&) const {
    set(Builtin::BATCH_MATMUL, BuiltinOptions::BatchMatMulOptions,
        tflite::CreateBatchMatMulOptions(builder_));
  }

  void operator()(const Cast& op) const {
    fill_cast(shard_.type(op_.operands[0]).dtype, op.dtype, builder_, node_);
  }

  void operator()(const Reduce& op) const {
    node_.inputs.push_back(context_.integers({op.axis}, {1}));
    // The IR keeps a reduced axis with size 1.
    set(at(kReduceOps, op.fn), BuiltinOptions::ReducerOptions,
        tflite::CreateReducerOptions(builder_, true));
  }

  void operator()(const Softmax&) const {
    set(Builtin::SOFTMAX, BuiltinOptions::SoftmaxOptions,
        tflite::CreateSoftmaxOptions(builder_, 1.0F));
  }

  void operator()(const Slice& op) const {
    const Dims& dims = shard_.type(op_.operands[0]).dims;
    std::vector<int64_t> begins(dims.size(), 0);
    at(begins, op.axis) = op.begin;
    node_.inputs.push_back(context_.integers(begins, {dims.rank()}));
    // The other axes are kept, so the sizes are those of the result.
    node_.inputs.push_back(context_.integers(result_dims(), {dims.rank()}));
    set(Builtin::SLICE, BuiltinOptions::SliceOptions, tflite::CreateSliceOptions(builder_));
  }

  void operator()(const Concat& op) const {
    set(Builtin::CONCATENATION, BuiltinOptions::ConcatenationOptions,
        tflite::CreateConcatenationOptions(builder_, static_cast<int32_t>(op.axis)));
  }

  void operator()(const Reshape& op) const { fill_reshape(op.dims, context_, node_); }

  void operator()(const Transpose& op) const { fill_transpose(op.perm, context_, node_); }

  // Sources have no node; SubgraphWriter writes conv and topk; check_tflite() rejects the others.
  template <class OpT>
  requires LoweredOp<OpT> || OneOf<OpT, Weight, Constant, Conv, TopK, Moe> ||
      InGroup<OpT, OpGroup::state>
  void operator()(const OpT&) const {
    MOEC_CHECK(false, "{} has no single TFLite node", mnemonic(op_.data));
  }

 private:
  const Dims& result_dims() const { return shard_.type(op_.results[0]).dims; }

  template <class Options>
  void set(Builtin code, BuiltinOptions type, flatbuffers::Offset<Options> options) const {
    node_.code = code;
    node_.type = type;
    node_.options = options.Union();
  }

  const Op& op_;
  const Shard& shard_;
  const NodeParts& context_;
  flatbuffers::FlatBufferBuilder& builder_;
  TfliteNode& node_;
};

}  // namespace

void fill_node(const Op& op, const Shard& shard, const NodeParts& context, TfliteNode& node) {
  std::visit(NodeFiller(op, shard, context, node), op.data);
}

void fill_fully_connected(const Type& x, flatbuffers::FlatBufferBuilder& builder,
                          TfliteNode& node) {
  node.code = Builtin::FULLY_CONNECTED;
  node.type = BuiltinOptions::FullyConnectedOptions;
  // Without keep_num_dims, an input of more than two axes would give a matrix.
  node.options =
      tflite::CreateFullyConnectedOptions(builder, /*fused_activation=*/0, /*weights_format=*/0,
                                          /*keep_num_dims=*/x.rank() > 2)
          .Union();
}

// The exact form; `approximate` would select the one with tanh.
void fill_gelu(flatbuffers::FlatBufferBuilder& builder, TfliteNode& node) {
  node.code = Builtin::GELU;
  node.type = BuiltinOptions::GeluOptions;
  node.options = tflite::CreateGeluOptions(builder, false).Union();
}

void fill_conv(int64_t groups, flatbuffers::FlatBufferBuilder& builder, TfliteNode& node) {
  node.code = Builtin::CONV_2D;
  // Groups follow from the sizes of the filter; version 6 registers them.
  node.version = groups > 1 ? 6 : 1;
  node.type = BuiltinOptions::Conv2DOptions;
  node.options = tflite::CreateConv2DOptions(builder, tflite::Padding::VALID, 1, 1).Union();
}

void fill_cast(DType from, DType to, flatbuffers::FlatBufferBuilder& builder, TfliteNode& node) {
  node.code = Builtin::CAST;
  node.type = BuiltinOptions::CastOptions;
  node.options = tflite::CreateCastOptions(builder, *tflite_dtype(from), *tflite_dtype(to)).Union();
}

void fill_transpose(const std::vector<int64_t>& perm, const NodeParts& context, TfliteNode& node) {
  node.code = Builtin::TRANSPOSE;
  node.inputs.push_back(context.integers(perm, {std::ssize(perm)}));
  node.type = BuiltinOptions::TransposeOptions;
  node.options = tflite::CreateTransposeOptions(context.builder).Union();
}

void fill_reshape(const Dims& dims, const NodeParts& context, TfliteNode& node) {
  node.code = Builtin::RESHAPE;
  node.inputs.push_back(context.integers(dims, {dims.rank()}));
  node.type = BuiltinOptions::ReshapeOptions;
  // The options repeat the input, for runtimes that read only one of them.
  const auto shape = context.builder.CreateVector(std::vector<int32_t>(dims.begin(), dims.end()));
  node.options = tflite::CreateReshapeOptions(context.builder, shape).Union();
}

void fill_broadcast(const Dims& dims, const NodeParts& context, TfliteNode& node) {
  node.code = Builtin::BROADCAST_TO;
  node.version = 2;
  node.inputs.push_back(context.integers(dims, {dims.rank()}));
  node.type = BuiltinOptions::BroadcastToOptions;
  node.options = tflite::CreateBroadcastToOptions(context.builder).Union();
}

void fill_topk(int64_t k, const NodeParts& context, TfliteNode& node) {
  node.code = Builtin::TOPK_V2;
  node.inputs.push_back(context.integers({k}, {}));
  node.type = BuiltinOptions::TopKV2Options;
  node.options = tflite::CreateTopKV2Options(context.builder).Union();
}

}  // namespace moec
