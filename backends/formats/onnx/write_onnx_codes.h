// The ONNX forms of encoded weights.
//
//   affine(8; …), one scale per tensor or per index of one axis
//       i8 codes and a DequantizeLinear of opset 13, whose result is f32. For an f16 weight, one
//       Cast converts the scales to f32 and another the result to f16, so that code × scale is
//       rounded once, as in Core ML
//   affine(4; 1, B) or affine(8; 1, B) of [N, K]. Matmuls use it after a transpose, and after a
//   reshape to [1, …, K, N] if the activations have more than two axes. B is a power of two, at
//   least 16, and with 8 bits below K
//       onnxruntime's MatMulNBits (domain com.microsoft, version 1) replaces weight, transpose,
//       reshape and matmul. Codes are u8 [N, ceil(K/B), B·bits/8], scales [N·ceil(K/B)] of the
//       activations' type, optional zeros u8 [N·ceil(ceil(K/B)·bits/8)]
//   affine(4; 1, 1, B), affine(8; 1, 1, B) or affine(8; 1, 1, K) of [E, N, K], the matrices of a
//   moe. B divides K and is a power of two, at least 16
//       an input of onnxruntime's QMoE (write_moe.h). Codes are u8 [E, N, K·bits/8], scales
//       [E, N, K/B], or [E, N] with one per row, optional zeros of 4-bit codes u8
//       [E, N, ceil(K/B/2)]
// onnxruntime keeps all forms compressed in memory. Sources: the operator documents of ONNX 1.12
// and onnxruntime 1.32 (ContribOperators.md), and runs of both forms.
#pragma once

#include "backends/formats/onnx/onnx_names.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace onnx {
class NodeProto;
}

namespace moec {

enum class OnnxWeightForm : uint8_t { plain, dequantize, nbits, experts };

// Returns the form of a weight with this encoding; nullopt if ONNX has none.
std::optional<OnnxWeightForm> onnx_weight_form(const Encoding& encoding, const Type& type);

// Returns the form in which the codes of a weight are written.
CodeForm onnx_code_form(const Encoding& encoding, const Type& type);

// Returns the axis along which each index has a separate scale; 0 if the tensor has a single scale.
int64_t scale_axis(const AffineEncoding& affine, const Type& type);

// Returns the block size of a QMoE with a matrix of experts in this encoding; 0 for 8-bit codes
// with one scale per row, because QMoE would use other kernels for them if it had a block size.
int64_t expert_block_size(const AffineEncoding& affine, const Type& type);

// Fails with emit.encoding if a weight's encoding has no ONNX form, or if an op other than a matmul
// after a transpose uses a MatMulNBits weight. Likewise if an op other than a moe uses a QMoE
// weight, or if the matrices of a moe differ in bits or block size.
Status check_encoded(const Shard& shard);

// Returns the weight of the matmul's second operand if the matmul becomes a MatMulNBits; an invalid
// id otherwise. The shard must pass check_encoded().
ValueId nbits_weight(const Shard& shard, const Op& matmul);
// True if the op is the transpose or reshape that a MatMulNBits absorbs.
bool is_inside_nbits(const Shard& shard, const Op& op);

// Sets the type and the attributes of a MatMulNBits, except for accuracy_level.
void fill_nbits(const AffineEncoding& affine, const Type& weight, onnx::NodeProto& node);
// Sets the type and the attributes of a DequantizeLinear.
void fill_dequantize(const AffineEncoding& affine, const Type& weight, onnx::NodeProto& node);

}  // namespace moec
