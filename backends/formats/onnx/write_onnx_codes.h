// The ONNX forms of encoded weights.
//
//   affine(8; …), a scale for the tensor or for each index of one axis
//       i8 codes and a DequantizeLinear of opset 13, which gives f32. For a weight of f16, a Cast
//       gives it the scales in f32, and another one makes its results f16: code × scale rounded
//       once, as Core ML has it
//   affine(4; 1, B) or affine(8; 1, B) of [N, K], which matmuls use behind a transpose, and behind
//   a reshape to [1, …, K, N] where activations have more than two axes; B is a power of two from
//   16 on, below K with 8 bits
//       a MatMulNBits of onnxruntime (domain com.microsoft, version 1) for weight, transpose,
//       reshape and matmul. Its codes are u8 [N, ceil(K/B), B·bits/8], scales [N·ceil(K/B)] of the
//       activations' type, zeros u8 [N·ceil(ceil(K/B)·bits/8)] where there are any
//
// onnxruntime keeps both compressed in memory. Sources: the operator documents of ONNX 1.12 and of
// onnxruntime 1.32 (ContribOperators.md), and runs of both.
#pragma once

#include "backends/formats/onnx/onnx_names.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace onnx {
class NodeProto;
}

namespace moec {

enum class OnnxWeightForm : uint8_t { plain, dequantize, nbits };

// The form of a weight with this encoding. Nothing where ONNX has none.
std::optional<OnnxWeightForm> onnx_weight_form(const Encoding& encoding, const Type& type);

// How the codes of a weight are written.
CodeForm onnx_code_form(const Encoding& encoding, const Type& type);

// The axis along which each index has a scale of its own; 0 where one scale is for all.
int64_t scale_axis(const AffineEncoding& affine, const Type& type);

// Error emit.encoding: a weight whose encoding has no form here, or a MatMulNBits that is used by
// another op than a matmul behind a transpose.
Status check_encoded(const Shard& shard);

// The weight of a matmul's second operand where both are one MatMulNBits; an invalid id otherwise.
// The shard meets check_encoded().
ValueId nbits_weight(const Shard& shard, const Op& matmul);
// The op is the transpose or the reshape in between.
bool is_inside_nbits(const Shard& shard, const Op& op);

// Sets the type and the attributes of a MatMulNBits, except for accuracy_level.
void fill_nbits(const AffineEncoding& affine, const Type& weight, onnx::NodeProto& node);
// The same for a DequantizeLinear.
void fill_dequantize(const AffineEncoding& affine, const Type& weight, onnx::NodeProto& node);

}  // namespace moec
