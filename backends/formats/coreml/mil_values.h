// Reads and checks types and immediate values of an ML Program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace moec {

namespace mlmodel {
class TensorType;
class Value;
}  // namespace mlmodel

// A type in a program. A size of 0 is unknown.
struct StatedType {
  DType dtype = DType::f32;
  Dims dims;
};

// Reads a type; `name` is for messages. Errors: coreml.dtype, coreml.shape (a size below 1, a rank
// above 5, too many elements).
Result<StatedType> stated_type(const mlmodel::TensorType& type, const std::string& name);

// Like stated_type(), but rejects unknown sizes: coreml.dynamic_shape.
Result<Type> fixed_type(const mlmodel::TensorType& type, const std::string& name);

// True if the types match; an unknown size matches any.
bool agrees(const StatedType& stated, const Type& type);
std::string to_string(const StatedType& stated);  // "f16[1,64,?,1]"

// Returns the elements of an immediate value. `type` must be f16, f32, i32 or bool. Error:
// coreml.value.
Result<std::vector<double>> immediate_values(const mlmodel::Value& value, const Type& type,
                                             const std::string& name);

// Return values of arguments. Error: coreml.argument if the value has another type.
Result<std::vector<int64_t>> integers_of(const mlmodel::Value& value, const std::string& name);
Result<int64_t> integer_of(const mlmodel::Value& value, const std::string& name);
Result<bool> boolean_of(const mlmodel::Value& value, const std::string& name);
Result<std::string> text_of(const mlmodel::Value& value, const std::string& name);
Result<double> number_of(const mlmodel::Value& value, const std::string& name);  // f16 or f32

}  // namespace moec
