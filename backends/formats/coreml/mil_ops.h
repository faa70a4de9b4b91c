// The MIL forms of the IR's ops, element types and literal values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/emit/op_tables.h"

namespace moec::mlmodel {
class TensorType;
class Value;
}  // namespace moec::mlmodel

namespace moec {

// The ops that decode stored weights, for the emitter and the reader.
inline constexpr std::string_view kAffineDequantize = "constexpr_affine_dequantize",
                                  kBlockwiseShiftScale = "constexpr_blockwise_shift_scale",
                                  kLutToDense = "constexpr_lut_to_dense";

// Ops without a MIL form. check_mil() refuses topk: no MIL op says which of equal scores wins.
template <class OpT>
concept WithoutMilOp = LoweredOp<OpT> || OneOf<OpT, TopK>;

// The type of MIL op: "real_div". Empty for an op without a MIL form.
std::string_view mil_op_type(const OpData& data);

// MIL's DataType, and the name of it that `cast` takes. Nothing for an element type that emitted
// programs do not use.
std::optional<int> mil_dtype(DType dtype);
std::string_view mil_dtype_name(DType dtype);

// A size below 0 is unknown.
void fill_tensor_type(DType dtype, const Dims& dims, mlmodel::TensorType& tensor);

// The elements as bytes, rounded to f16 or f32. `values` holds one for each element, or one for
// all.
std::string float_bytes(const Type& type, const std::vector<double>& values);

// Fills in a value that is stored in the program itself, with its type.
void fill_immediate(const Type& type, const std::vector<double>& values, mlmodel::Value& value);
void fill_string(const std::string& text, mlmodel::Value& value);

}  // namespace moec
