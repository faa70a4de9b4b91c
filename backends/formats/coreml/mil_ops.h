// Maps the IR's ops, element types and literals to MIL.
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

// Ops without a MIL form. check_mil() rejects topk, because MIL does not define how ties are
// broken, and moe.
template <class OpT>
concept WithoutMilOp = LoweredOp<OpT> || OneOf<OpT, TopK, Moe>;

// Returns the MIL op type, such as "real_div"; empty for an op without a MIL form.
std::string_view mil_op_type(const OpData& data);

// Return MIL's DataType, and its name as an argument of `cast`. mil_dtype() returns nullopt for
// element types that emitted programs do not use.
std::optional<int> mil_dtype(DType dtype);
std::string_view mil_dtype_name(DType dtype);

// Negative sizes become unknown dimensions.
void fill_tensor_type(DType dtype, const Dims& dims, mlmodel::TensorType& tensor);

// Returns the elements as bytes, rounded to f16 or f32. `values` contains one value per element, or
// a single value for all elements.
std::string float_bytes(const Type& type, const std::vector<double>& values);

// Fills in an immediate value and its type.
void fill_immediate(const Type& type, const std::vector<double>& values, mlmodel::Value& value);
void fill_string(const std::string& text, mlmodel::Value& value);

}  // namespace moec
