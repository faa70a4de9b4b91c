// Views of checkpoint tensors that decode the format in which they are stored (WeightCoding).
#pragma once

#include <string>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "models/tensors/stored_tensor.h"

namespace moec {

// The tensors that must be in the table for a needed tensor NAME. By default NAME itself; for a
// derived tensor, the tensors from which the table derives it. Exceptions for a matrix [out, in],
// with g = ⌈in/group⌉, w(n) the words of n integers, and X = NAME without "weight":
//   fp8_blocks  NAME f8_e4m3; NAME_scale_inv or NAME_scale [⌈out/b0⌉, ⌈in/b1⌉], the factors of the
//               blocks; axes of one factor may be missing. Source: the DeepSeek-V3 release; the
//               format float-quantized of compressed-tensors.
//   mxfp4       for all experts [E, in, out]: NAME_blocks u8 [E, out, in/32, 16], two numbers per
//   byte
//               along the inputs, and NAME_scales u8 [E, out, in/32]. Source: the gpt-oss release.
//   nvfp4       NAME or NAME_packed u8 [out, in/2]; NAME_scale f8_e4m3 [out, in/16]; and one
//   number,
//               NAME_scale_2, by which factors are multiplied, or NAME_global_scale, by which they
//               are divided. Sources: ModelOpt; the format nvfp4-pack-quantized of
//               compressed-tensors.
//   int_groups  NAME_packed i32 [out, w(in)] with 2^(bits − 1) added to each integer; NAME_scale
//               [out, g]; with zeros NAME_zero_point i32 [w(out), g], packed like the integers
//               along out; if indexed NAME_g_idx i32 [in]. Source: the format pack-quantized of
//               compressed-tensors.
//   gptq        Xqweight i32 [w(in), out], packed along in; Xqzeros i32 [g, w(out)]; Xscales [g,
//   out];
//               if indexed Xg_idx i32 [in]. Source: AutoGPTQ.
//   awq         Xqweight i32 [in, w(out)] and Xqzeros i32 [g, w(out)], both in the order of u4_awq;
//               Xscales [g, out]. Source: AutoAWQ, version GEMM.
//   mlx         NAME i32 [out, w(in)]; Xscales and Xbiases [out, g]; the same with an axis of
//   experts
//               before. Source: mx.quantize() of MLX.
//   nf4, fp4    NAME u8 [⌈out·in/2⌉, 1] in the order of u4_high; NAME.absmax f32, one per block of
//               consecutive elements; NAME.quant_map f32 [16]; and quant_state_of(NAME) u8, a JSON
//               text. Nested: NAME.absmax u8, NAME.nested_absmax f32, one per kNestedBlock factors,
//               and NAME.nested_quant_map f32 [256]. The table must derive
//               decoded_state_of(NAME) f32 [out, in], of which every element is the number that is
//               added to nested factors. Source: QuantState of bitsandbytes.
//   int8_rows   NAME u8 [out, in], integers in two's complement; XSCB f32 [out], 127 times the
//               factors; Xweight_format u8, if stored. Source: Linear8bitLt of bitsandbytes.
std::vector<StoredTensor> stored_tensors(const WeightTable& weights, const StoredWeights& stored,
                                         const NeededTensor& tensor);

// True for nf4, fp4 and int8_rows.
bool is_of_bitsandbytes(WeightCoding coding);
// nf4, fp4: the tensor that describes the matrix NAME as a JSON text, and the derived tensor that
// has the shape and the offset that the text states.
std::string quant_state_of(const StoredWeights& stored, const std::string& name);
std::string decoded_state_of(const std::string& name);
// int8_rows: the tensor that states the order of the integers.
std::string weight_format_of(const std::string& name);

// The possible names of tensors that store `name`. A checkpoint that stores it has at least one.
std::vector<std::string> stored_names(const StoredWeights& stored, const std::string& name);

// A view of a stored tensor in the shape of the needed tensor. Decoded values are f32; plain values
// keep the stored type. The tensor must be in the table.
WeightView stored_view(const WeightTable& weights, const StoredWeights& stored,
                       const std::string& name);

}  // namespace moec
