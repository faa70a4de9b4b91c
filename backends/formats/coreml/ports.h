// The inputs, outputs and states that a model's description promises.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "backends/formats/coreml/coreml_metadata.h"
#include "backends/formats/coreml/mil_arguments.h"

namespace moec {

namespace mlmodel {
class ModelDescription;
class NamedValueType;
}  // namespace mlmodel

// The width that a range package is read for.
struct ReadWidth {
  WidthRange range;
  int64_t tokens = 0;  // in the range
};

struct Port {
  DType dtype = DType::f32;
  std::optional<Dims> dims;  // nothing: left open, as outputs of a range package are
};

// By name.
using PortMap = std::map<std::string, Port, std::less<>>;
struct Ports {
  PortMap inputs, outputs, states;
};

// The ports of a function; an empty name stands for a description without functions. In a shape
// range a size grows evenly from its lower bound at the least width to its upper one at the
// largest. Errors: coreml.description, coreml.dynamic_shape (a range without a width, sizes that do
// not grow so).
Result<Ports> read_ports(const mlmodel::ModelDescription& description, const std::string& function,
                         const std::optional<ReadWidth>& width);

// The type of an input or state of the program, which the description must have as the program
// states it; with `is_range` the program may leave sizes open. Errors: coreml.description and those
// of stated_type().
Result<Type> described_type(const PortMap& ports, const mlmodel::NamedValueType& stated,
                            bool is_range);

// What the names in a function stand for, known before its operations are read: which consts are
// values and which only state arguments.

namespace mlmodel {
class Block;
class Function;
}  // namespace mlmodel

struct FunctionNames {
  Consts consts;
  std::set<std::string, std::less<>> states;
  std::set<std::string, std::less<>> arguments;  // consts that are no values
  std::set<std::string, std::less<>> all;
};

// Each name is defined once, before its first use. Errors: coreml.duplicate_name, coreml.undefined,
// coreml.argument, coreml.op, coreml.value (a const without a value).
Result<FunctionNames> read_names(const mlmodel::Function& function, const mlmodel::Block& block,
                                 const CoremlMetadata& metadata);

// Whether the metadata says that the operation is a negation.
bool is_negation(const mlmodel::Operation& operation, const CoremlMetadata& metadata);

// Operations that are neither consts nor ops of the IR.
inline constexpr std::string_view kConst = "const";
inline constexpr std::string_view kIdentity = "identity";
inline constexpr std::string_view kReadState = "read_state";
inline constexpr std::string_view kWriteState = "write_state";

}  // namespace moec
