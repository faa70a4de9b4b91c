#include "backends/formats/onnx/read_onnx_codes.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <optional>

#include "backends/formats/onnx/external_data.h"
#include "backends/formats/onnx/node_attributes.h"
#include "backends/formats/onnx/read_moe.h"
#include "backends/formats/onnx/tensor_data.h"
#include "ir/graph/encoding.h"

namespace moec {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;

tl::unexpected<Diagnostics> fail_node(const NodeProto& node, std::string cause) {
  return fail("onnx.op", std::move(cause), "export the model again", {.op = node.name()});
}

// Finds the parts of a node's weight and adds their ranges to the table.
class PartReader {
 public:
  PartReader(const NodeProto& node, const Initializers& initializers, const std::string& folder,
             WeightTable& table)
      : node_(node), initializers_(initializers), folder_(folder), table_(table) {}

  // Returns an input, which must be an external initializer of one of these ONNX element types.
  Result<const TensorProto*> tensor(int input, std::initializer_list<int> types) const {
    if (input < node_.input_size()) return tensor(input, node_.input(input), types);
    return tensor(input, std::string(), types);
  }

  Result<const TensorProto*> tensor(int input, const std::string& name,
                                    std::initializer_list<int> types) const {
    const auto found = initializers_.find(name);
    if (found == initializers_.end() || found->second->data_location() != TensorProto::EXTERNAL)
      return fail_node(node_, fmt::format("input {} of {} is not an initializer in the data file",
                                          input, node_.op_type()));
    for (int type : types)
      if (found->second->data_type() == type) return found->second;
    return fail("onnx.dtype",
                fmt::format("element type {} is unsupported here", found->second->data_type()),
                "export the model again", {.tensor = found->second->name()});
  }

  // Returns a view of the tensor's bytes as `type`, which must have the same number of elements.
  // `tensor` is a copy, because the range is added to the table under another name.
  Result<WeightView> part(TensorProto tensor, const Type& type, const std::string& name) {
    const auto elements = checked_elements({tensor.dims().begin(), tensor.dims().end()});
    // A scalar has no sizes. Invalid sizes count as 0 and never match.
    const int64_t stated = tensor.dims_size() == 0 ? 1 : elements.value_or(0);
    if (stated != type.elements())
      return fail("onnx.shape",
                  fmt::format("a tensor has {} elements, expected {}", stated, type.elements()),
                  "export the model again", {.tensor = tensor.name()});
    tensor.set_name(name);
    MOEC_TRY(add_external(tensor, type, folder_, table_));
    return tensor_view(name, type);
  }

 private:
  const NodeProto& node_;
  const Initializers& initializers_;
  const std::string& folder_;
  WeightTable& table_;
};

// A weight as stated in the graph. view_of() checks the encoding.
struct Coded {
  AffineEncoding encoding;
  Type type;  // of the decoded weight
  CodeForm form = CodeForm::signed_codes;
  const TensorProto* codes = nullptr;
  const TensorProto* scales = nullptr;
  const TensorProto* zeros = nullptr;  // may be absent
};

Result<WeightView> view_of(const Coded& coded, const std::string& name, PartReader& parts) {
  // The encoding comes from the file, so it is checked before sizes are derived from it.
  MOEC_TRY(check_encoding(coded.encoding, coded.type));
  std::vector<WeightView> views;
  for (const StoredPart& part : stored_parts(coded.encoding, coded.type, coded.form)) {
    const TensorProto* tensor = part.part == WeightPart::codes    ? coded.codes
                                : part.part == WeightPart::scales ? coded.scales
                                                                  : coded.zeros;
    MOEC_ASSIGN(WeightView view,
                parts.part(*tensor, part.type, tensor == coded.codes ? name : tensor->name()));
    views.push_back(std::move(view));
  }
  return decoded_view(coded.encoding, coded.type, std::move(views), coded.form);
}

// The scales of a DequantizeLinear: f32, or f16 after a cast to f32.
Result<const TensorProto*> read_scales(const Decoder& decoder, const PartReader& parts) {
  if (!decoder.widen) return parts.tensor(1, {TensorProto::FLOAT});
  return parts.tensor(1, decoder.widen->input(0), {TensorProto::FLOAT16});
}

// Reads int8 codes with one scale for the tensor or one per index of `axis`.
Result<Coded> read_dequantize(const Decoder& decoder, const PartReader& parts) {
  const NodeProto& node = *decoder.node;
  Attributes attributes(node);
  MOEC_ASSIGN(int64_t axis, attributes.integer("axis", 1));
  MOEC_TRY(attributes.finish());
  if (node.input_size() < 2 || node.input_size() > 3 || node.output_size() != 1)
    return fail_node(node, "DequantizeLinear must have codes, scales and optionally zeros");
  Coded coded;
  MOEC_ASSIGN(coded.codes, parts.tensor(0, {TensorProto::INT8}));
  MOEC_ASSIGN(coded.scales, read_scales(decoder, parts));
  coded.encoding.zero_point = node.input_size() == 3;
  if (coded.encoding.zero_point) {
    MOEC_ASSIGN(coded.zeros, parts.tensor(2, {TensorProto::INT8}));
  }
  MOEC_ASSIGN(coded.type, decoded_type(*coded.codes, decoder.widen ? DType::f16 : DType::f32));
  coded.encoding.block = coded.type.dims;
  if (axis < 0) axis += coded.type.rank();
  // With a single scale, ONNX ignores `axis`, so any value is accepted.
  const bool per_index = coded.scales->dims_size() > 0 && coded.scales->dims(0) > 1;
  if (per_index && (axis < 0 || axis >= coded.type.rank()))
    return fail_node(node, fmt::format("axis {} is outside {}", axis, to_string(coded.type)));
  if (per_index) coded.encoding.block.at(axis) = 1;
  return coded;
}

Result<Coded> read_nbits(const NodeProto& node, const PartReader& parts) {
  Attributes attributes(node);
  MOEC_ASSIGN(const int64_t k, attributes.integer("K"));
  MOEC_ASSIGN(const int64_t n, attributes.integer("N"));
  MOEC_ASSIGN(const int64_t bits, attributes.integer("bits", 4));
  MOEC_ASSIGN(const int64_t block, attributes.integer("block_size"));
  // The level affects only how onnxruntime computes, so its value is ignored.
  MOEC_TRY(attributes.integer("accuracy_level", 0));
  MOEC_TRY(attributes.finish());
  if (node.input_size() < 3 || node.input_size() > 4 || node.output_size() != 1)
    return fail_node(node, "MatMulNBits must have only codes, scales and optionally zeros");
  Coded coded;
  // MatMulNBits stores unsigned codes.
  coded.form = CodeForm::excess;
  MOEC_ASSIGN(coded.codes, parts.tensor(1, {TensorProto::UINT8}));
  MOEC_ASSIGN(coded.scales, parts.tensor(2, {TensorProto::FLOAT, TensorProto::FLOAT16}));
  if (node.input_size() == 4) {
    MOEC_ASSIGN(coded.zeros, parts.tensor(3, {TensorProto::UINT8, coded.scales->data_type()}));
  }
  // Zeros that are not integers were copied from a checkpoint.
  const bool copied = coded.zeros && coded.zeros->data_type() != TensorProto::UINT8;
  coded.encoding = {bits, {1, block}, coded.zeros != nullptr, copied};
  MOEC_ASSIGN(const DType dtype, dtype_of(coded.scales->data_type(), coded.scales->name()));
  // N and K come from the file, so their product could overflow.
  if (!checked_elements({n, k}))
    return fail_node(node, fmt::format("N = {} and K = {} are not valid sizes", n, k));
  coded.type = {dtype, {n, k}};
  return coded;
}

// Reads a matrix of a QMoE.
Result<Coded> read_experts(const Decoder& decoder, const PartReader& parts) {
  const NodeProto& node = *decoder.node;
  const ExpertInputs inputs = decoder.codes == kDownInputs.codes ? kDownInputs : kGateUpInputs;
  // read_moe() checks the other attributes.
  Attributes attributes(node);
  MOEC_ASSIGN(const int64_t bits, attributes.integer("expert_weight_bits"));
  MOEC_ASSIGN(const int64_t block, attributes.integer("block_size", 0));
  Coded coded;
  coded.form = CodeForm::excess;
  MOEC_ASSIGN(coded.codes, parts.tensor(inputs.codes, {TensorProto::UINT8}));
  MOEC_ASSIGN(coded.scales,
              parts.tensor(inputs.codes + 1, {TensorProto::FLOAT, TensorProto::FLOAT16}));
  const bool has_zeros = inputs.zeros < node.input_size() && !node.input(inputs.zeros).empty();
  if (has_zeros) {
    MOEC_ASSIGN(coded.zeros, parts.tensor(inputs.zeros, {TensorProto::UINT8}));
  }
  const TensorProto& codes = *coded.codes;
  // The sizes come from the file, so their product could overflow.
  if ((bits != 4 && bits != 8) || codes.dims_size() != 3 ||
      !checked_elements({codes.dims(0), codes.dims(1), codes.dims(2), 8 / bits}))
    return fail_node(
        node, fmt::format("input {} has no valid matrices of {}-bit codes", inputs.codes, bits));
  const int64_t columns = codes.dims(2) * (8 / bits);
  coded.encoding = {bits, {1, 1, block == 0 ? columns : block}, has_zeros};
  MOEC_ASSIGN(const DType dtype, dtype_of(coded.scales->data_type(), coded.scales->name()));
  coded.type = {dtype, {codes.dims(0), codes.dims(1), columns}};
  return coded;
}

bool is_dequantize(const NodeProto& node) {
  return node.domain().empty() && node.op_type() == "DequantizeLinear" && node.input_size() > 0 &&
         node.output_size() > 0;
}

// In opset 17, `to` is the only attribute of a Cast.
bool is_cast_to(const NodeProto& node, int dtype) {
  return node.domain().empty() && node.op_type() == "Cast" && node.input_size() == 1 &&
         node.output_size() == 1 && node.attribute_size() == 1 && node.attribute(0).i() == dtype;
}

Result<Coded> read_coded(const Decoder& decoder, const PartReader& parts) {
  if (is_nbits(*decoder.node)) return read_nbits(*decoder.node, parts);
  if (is_coded_moe(*decoder.node)) return read_experts(decoder, parts);
  return read_dequantize(decoder, parts);
}

using NodesByName = std::map<std::string_view, const NodeProto*>;

const NodeProto* node_at(const NodesByName& nodes, std::string_view name) {
  const auto found = nodes.find(name);
  return found == nodes.end() ? nullptr : found->second;
}

}  // namespace

bool is_nbits(const NodeProto& node) {
  return node.domain() == kMicrosoftDomain && node.op_type() == "MatMulNBits" &&
         node.input_size() > 1;
}

void Decoders::add_experts(const NodeProto& node) {
  for (const int codes : {kGateUpInputs.codes, kDownInputs.codes})
    if (codes < node.input_size()) by_codes_.emplace(node.input(codes), Decoder{&node, codes});
}

Decoders::Decoders(const onnx::GraphProto& graph) {
  NodesByName widen, narrow;  // by output, by input
  for (const NodeProto& node : graph.node()) {
    if (is_cast_to(node, TensorProto::FLOAT)) widen.emplace(node.output(0), &node);
    if (is_cast_to(node, TensorProto::FLOAT16)) narrow.emplace(node.input(0), &node);
  }
  for (const NodeProto& node : graph.node()) {
    if (is_coded_moe(node)) add_experts(node);
    if (!is_dequantize(node) && !is_nbits(node)) continue;
    Decoder decoder{&node, is_nbits(node) ? 1 : 0};
    if (is_dequantize(node) && node.input_size() > 1) {
      decoder.widen = node_at(widen, node.input(1));
      decoder.narrow = node_at(narrow, node.output(0));
    }
    // The form of an f16 weight has both casts. A single cast is a separate op.
    if (!decoder.widen || !decoder.narrow) decoder.widen = decoder.narrow = nullptr;
    // Several nodes may share codes. emplace() keeps the first one.
    by_codes_.emplace(node.input(decoder.codes), decoder);
    for (const NodeProto* part : {decoder.node, decoder.widen, decoder.narrow})
      if (part) by_node_.emplace(part, decoder);
  }
}

const Decoder* Decoders::of_codes(std::string_view initializer) const {
  const auto found = by_codes_.find(initializer);
  return found == by_codes_.end() ? nullptr : &found->second;
}

const Decoder* Decoders::of_node(const NodeProto& node) const {
  const auto found = by_node_.find(&node);
  return found == by_node_.end() ? nullptr : &found->second;
}

const std::string& decoded_name(const Decoder& decoder) {
  if (!is_dequantize(*decoder.node)) return decoder.node->input(decoder.codes);
  return decoder.narrow ? decoder.narrow->output(0) : decoder.node->output(0);
}

Result<WeightView> read_coded_weight(const Decoder& decoder, const Initializers& initializers,
                                     const std::string& folder, WeightTable& table) {
  PartReader parts(*decoder.node, initializers, folder, table);
  MOEC_ASSIGN(const Coded coded, read_coded(decoder, parts));
  return view_of(coded, decoded_name(decoder), parts);
}

}  // namespace moec
