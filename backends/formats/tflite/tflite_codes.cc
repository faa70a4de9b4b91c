#include "backends/formats/tflite/tflite_codes.h"

#include <fmt/format.h>

#include "backends/emit/shard_facts.h"
#include "backends/formats/tflite/fused_forms.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> refuse(const Shard& shard, ValueId value, std::string cause,
                                   std::string next) {
  return fail("emit.encoding", std::move(cause), std::move(next),
              {.shard = shard.name, .op = shard.label(value)});
}

Status check_form(const Shard& shard, ValueId value, const Encoding& encoding) {
  const Type& type = shard.type(value);
  if (tflite_weight_form(encoding, type)) return {};
  const std::string cause =
      fmt::format("{} of {} has no TFLite form", to_string(encoding), to_string(type));
  if (type.dtype != DType::f32)
    return refuse(shard, value, cause, "export with --dtype f32, which quantized weights require");
  return refuse(
      shard, value, cause,
      "choose int8, or a block size of 32, 64, 128 or 256 that divides the inputs, or keep "
      "the weight float");
}

// Kernels for codes require f32 activations and scales that belong to one row.
bool is_coded_matrix(const AffineEncoding& encoding, const Type& type) {
  return type.dtype == DType::f32 && type.rank() == 2 && encoding.block.at(0) == 1;
}

bool is_quantized(const Shard& shard, ValueId value) {
  const auto* weight = shard.producer_as<Weight>(value);
  return weight && !is_plain(weight->encoding);
}

}  // namespace

std::optional<TfliteWeightForm> tflite_weight_form(const Encoding& encoding, const Type& type) {
  if (is_plain(encoding)) return TfliteWeightForm::plain;
  const auto* affine = std::get_if<AffineEncoding>(&encoding);
  if (!affine || affine->zero_point || affine->copied || !is_coded_matrix(*affine, type))
    return std::nullopt;
  const int64_t block = affine->block.at(1), inputs = type.dims.at(1);
  // Codes of 4 bits are stored in pairs, across the ends of rows.
  if (block == inputs && (affine->bits == 8 || inputs % 2 == 0)) return TfliteWeightForm::rows;
  if (affine->bits != 4) return std::nullopt;
  const bool has_kernel = block == 32 || block == 64 || block == 128 || block == 256;
  if (has_kernel && inputs % block == 0) return TfliteWeightForm::blocks;
  return std::nullopt;
}

std::optional<DType> scale_dtype(const Encoding& encoding, const Type& type) {
  const bool blocks = tflite_weight_form(encoding, type) == TfliteWeightForm::blocks;
  return blocks ? std::optional(DType::f16) : std::nullopt;
}

Status check_codes(const Shard& shard) {
  for (const Op& op : shard.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data))
      MOEC_TRY(check_form(shard, op.results[0], weight->encoding));
  const IdMap<OpId, uint8_t> needed = needed_ops(shard);
  for (const OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    if (!needed[id] || fully_connected_weight(shard, op).valid()) continue;
    for (const ValueId operand : op.operands)
      if (is_quantized(shard, operand))
        return refuse(shard, operand,
                      fmt::format("a {} uses a quantized weight, which only a matmul after a "
                                  "transpose can use",
                                  mnemonic(op.data)),
                      "keep the weight float");
  }
  for (const Output& output : shard.outputs)
    if (is_quantized(shard, output.value))
      return refuse(shard, output.value, "a quantized weight is an output",
                    "keep the weight float");
  return {};
}

}  // namespace moec
