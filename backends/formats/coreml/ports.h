// Reads the inputs, outputs and states of a model's description.
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

// The token width at which a range package is read.
struct ReadWidth {
  WidthRange range;
  int64_t tokens = 0;  // within `range`
};

struct Port {
  DType dtype = DType::f32;
  std::optional<Dims> dims;  // nullopt: unspecified, as for outputs of a range package
};

// By name.
using PortMap = std::map<std::string, Port, std::less<>>;
struct Ports {
  PortMap inputs, outputs, states;
};

// The ports of a function; an empty name means a description without functions. A size in a shape
// range must be linear in the width, from its lower bound at the smallest width to its upper bound
// at the largest. Errors: coreml.description, coreml.dynamic_shape (a size range without a width,
// or one that is not linear in the width).
Result<Ports> read_ports(const mlmodel::ModelDescription& description, const std::string& function,
                         const std::optional<ReadWidth>& width);

// Returns the described type of an input or state, which must match the type in the program. The
// program may have unknown sizes if `is_range` is set. Errors: coreml.description and those of
// stated_type().
Result<Type> described_type(const PortMap& ports, const mlmodel::NamedValueType& stated,
                            bool is_range);

// Classifies the names of a function before its operations are read: in particular, distinguishes
// consts that are values from consts that are only arguments.

namespace mlmodel {
class Block;
class Function;
}  // namespace mlmodel

struct FunctionNames {
  Consts consts;
  std::set<std::string, std::less<>> states;
  std::set<std::string, std::less<>> arguments;  // consts that are not values
  std::set<std::string, std::less<>> all;
};

// Each name must be defined once, before its first use. Errors: coreml.duplicate_name,
// coreml.undefined, coreml.argument, coreml.op, coreml.value (a const without a value).
Result<FunctionNames> read_names(const mlmodel::Function& function, const mlmodel::Block& block,
                                 const CoremlMetadata& metadata);

// True if the metadata mark the operation as a negation.
bool is_negation(const mlmodel::Operation& operation, const CoremlMetadata& metadata);

// Operations that function_reader.cc handles without read_op().
inline constexpr std::string_view kConst = "const";
inline constexpr std::string_view kIdentity = "identity";
inline constexpr std::string_view kReadState = "read_state";
inline constexpr std::string_view kWriteState = "write_state";

}  // namespace moec
