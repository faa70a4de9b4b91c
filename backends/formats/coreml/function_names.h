// What the names in a function stand for, known before its operations are read: which consts are
// values and which only state arguments.
#pragma once

#include <set>
#include <string>

#include "backends/formats/coreml/coreml_metadata.h"
#include "backends/formats/coreml/mil_arguments.h"

namespace moec {

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
