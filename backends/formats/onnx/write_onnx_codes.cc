#include "backends/formats/onnx/write_onnx_codes.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <bit>

#include "backends/emit/shard_facts.h"
#include "backends/formats/onnx/set_attributes.h"

namespace moec {
namespace {

// True if the block covers all axes fully, except at most one along which it has size 1. A
// DequantizeLinear of opset 13 has scales along one axis only.
bool has_one_axis(const Dims& block, const Type& type) {
  int64_t cut = 0;
  for (int64_t axis = 0; axis < type.rank(); ++axis) {
    if (block.at(axis) == type.dims.at(axis)) continue;
    if (block.at(axis) != 1) return false;
    ++cut;
  }
  return cut <= 1;
}

// onnxruntime's MatMulNBits requires a block size that is a power of two and at least this.
constexpr int64_t kLeastBlock = 16;

bool is_nbits(const AffineEncoding& affine, const Type& type) {
  return type.rank() == 2 && affine.block.at(0) == 1 && affine.block.at(1) >= kLeastBlock &&
         std::has_single_bit(static_cast<uint64_t>(affine.block.at(1)));
}

// True for matrices of experts [E, N, K] with a scale per row or per block of a row. QMoE has no
// floats as zeros, and its 8-bit codes have none at all.
bool is_of_experts(const AffineEncoding& affine, const Type& type) {
  if (type.rank() != 3 || affine.block.at(0) != 1 || affine.block.at(1) != 1) return false;
  if (affine.zero_point && (affine.bits == 8 || affine.copied)) return false;
  const int64_t block = expert_block_size(affine, type);
  return block == 0 || (block >= kLeastBlock && std::has_single_bit(static_cast<uint64_t>(block)) &&
                        type.dims.at(2) % block == 0);
}

bool has_form(const Shard& shard, ValueId value, OnnxWeightForm form) {
  const auto* weight = shard.producer_as<Weight>(value);
  return weight && onnx_weight_form(weight->encoding, shard.type(value)) == form;
}

bool is_nbits_weight(const Shard& shard, ValueId value) {
  return has_form(shard, value, OnnxWeightForm::nbits);
}

bool is_expert_weight(const Shard& shard, ValueId value) {
  return has_form(shard, value, OnnxWeightForm::experts);
}

tl::unexpected<Diagnostics> refuse(const Shard& shard, ValueId value, std::string cause,
                                   std::string next) {
  return fail("emit.encoding", std::move(cause), std::move(next),
              {.shard = shard.name, .op = shard.label(value)});
}

Status check_form(const Shard& shard, const Weight& weight, ValueId value) {
  if (onnx_weight_form(weight.encoding, shard.type(value))) return {};
  return refuse(shard, value,
                fmt::format("{} of {} has no ONNX form", to_string(weight.encoding),
                            to_string(shard.type(value))),
                "use int8 or int8:tensor, or pass --form matmul to use int4:32 or int8:32");
}

// The MatMulNBits weight whose transpose is the value; an invalid id if there is none.
ValueId turned_nbits(const Shard& shard, ValueId value) {
  const ValueId weight = turned_weight(shard, value);
  return weight.valid() && is_nbits_weight(shard, weight) ? weight : ValueId{};
}

// A QMoE has one number of bits and one block size (expert_block_size).
struct ExpertCodes {
  int64_t bits = 0, block = 0;
  bool operator==(const ExpertCodes&) const = default;
};

ExpertCodes codes_of_experts(const Shard& shard, ValueId value) {
  if (!is_expert_weight(shard, value)) return {};
  const auto& affine = std::get<AffineEncoding>(shard.producer_as<Weight>(value)->encoding);
  return {affine.bits, expert_block_size(affine, shard.type(value))};
}

// Checks the use of the matrices of a moe.
Status check_expert_use(const Shard& shard, const Op& op) {
  const bool is_moe = std::holds_alternative<Moe>(op.data);
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (is_expert_weight(shard, op.operands[i]) && (!is_moe || (i != 2 && i != 3)))
      return refuse(shard, op.operands[i],
                    fmt::format("a {} uses quantized matrices of experts, which only a moe can use",
                                mnemonic(op.data)),
                    "keep the weight plain");
  if (!is_moe) return {};
  const auto of = moe_operands(op.operands);
  if (codes_of_experts(shard, of.gate_up) == codes_of_experts(shard, of.down)) return {};
  return refuse(shard, of.gate_up, "the matrices of a moe differ in bits or block size",
                "use one form for all matrices of experts");
}

// Checks that the op may use its operands that are MatMulNBits weights or their transposes.
Status check_use(const Shard& shard, const Op& op) {
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueId operand = op.operands[i];
    if (is_nbits_weight(shard, operand) && !is_row_to_column(op))
      return refuse(
          shard, operand,
          fmt::format("a {} uses a blockwise weight, which only a matmul after a transpose can use",
                      mnemonic(op.data)),
          "keep the weight plain");
    if (!turned_nbits(shard, operand).valid() || is_inside_nbits(shard, op)) continue;
    if (!std::holds_alternative<MatMul>(op.data) || i != 1)
      return refuse(shard, operand,
                    fmt::format("a {} uses the transpose of a blockwise weight other than as a "
                                "matmul's second operand",
                                mnemonic(op.data)),
                    "keep the weight plain");
  }
  return {};
}

}  // namespace

std::optional<OnnxWeightForm> onnx_weight_form(const Encoding& encoding, const Type& type) {
  if (is_plain(encoding)) return OnnxWeightForm::plain;
  const auto* affine = std::get_if<AffineEncoding>(&encoding);
  if (!affine || (type.dtype != DType::f32 && type.dtype != DType::f16)) return std::nullopt;
  if (is_of_experts(*affine, type)) return OnnxWeightForm::experts;
  // Preferred over MatMulNBits, because DequantizeLinear is a standard op.
  if (affine->bits == 8 && has_one_axis(affine->block, type)) return OnnxWeightForm::dequantize;
  return is_nbits(*affine, type) ? std::optional(OnnxWeightForm::nbits) : std::nullopt;
}

CodeForm onnx_code_form(const Encoding& encoding, const Type& type) {
  const std::optional<OnnxWeightForm> form = onnx_weight_form(encoding, type);
  const bool excess = form == OnnxWeightForm::nbits || form == OnnxWeightForm::experts;
  return excess ? CodeForm::excess : CodeForm::signed_codes;
}

int64_t expert_block_size(const AffineEncoding& affine, const Type& type) {
  const int64_t block = affine.block.back();
  return affine.bits == 8 && block == type.dims.back() ? 0 : block;
}

// With a single scale, ONNX ignores the axis.
int64_t scale_axis(const AffineEncoding& affine, const Type& type) {
  for (int64_t axis = 0; axis < type.rank(); ++axis)
    if (affine.block.at(axis) != type.dims.at(axis)) return axis;
  return 0;
}

Status check_encoded(const Shard& shard) {
  for (const Op& op : shard.ops) {
    if (const auto* weight = std::get_if<Weight>(&op.data))
      MOEC_TRY(check_form(shard, *weight, op.results.front()));
    MOEC_TRY(check_use(shard, op));
    MOEC_TRY(check_expert_use(shard, op));
  }
  // The graph has no tensor with the values of a MatMulNBits weight or of its transpose.
  for (const Output& output : shard.outputs)
    if (is_nbits_weight(shard, output.value) || turned_nbits(shard, output.value).valid())
      return refuse(shard, output.value, "a blockwise weight is an output",
                    "keep the weight plain");
    else if (is_expert_weight(shard, output.value))
      return refuse(shard, output.value, "a quantized matrix of experts is an output",
                    "keep the weight plain");
  return {};
}

bool is_inside_nbits(const Shard& shard, const Op& op) {
  return op.results.size() == 1 && turned_nbits(shard, op.results.front()).valid();
}

ValueId nbits_weight(const Shard& shard, const Op& matmul) {
  if (!std::holds_alternative<MatMul>(matmul.data)) return {};
  return turned_nbits(shard, matmul.operands[1]);
}

void fill_nbits(const AffineEncoding& affine, const Type& weight, onnx::NodeProto& node) {
  node.set_domain(kMicrosoftDomain);
  node.set_op_type("MatMulNBits");
  set_int(node, "K", weight.dims.at(1));
  set_int(node, "N", weight.dims.at(0));
  set_int(node, "bits", affine.bits);
  set_int(node, "block_size", affine.block.at(1));
}

void fill_dequantize(const AffineEncoding& affine, const Type& weight, onnx::NodeProto& node) {
  node.set_op_type("DequantizeLinear");
  set_int(node, "axis", scale_axis(affine, weight));
}

}  // namespace moec
