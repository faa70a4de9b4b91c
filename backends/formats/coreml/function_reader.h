// Reads a function of an ML Program as a shard: consts, operations and ports in order. Infers the
// types and checks them against the types in the program and in the description.
#pragma once

#include <string>

#include "backends/formats/coreml/coreml_metadata.h"
#include "backends/formats/coreml/ports.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

namespace mlmodel {
class Block;
class Function;
}  // namespace mlmodel

// Inputs of read_function() from outside the function.
struct FunctionContext {
  std::string name;
  Ports ports;
  CoremlMetadata metadata;
  std::string folder;  // of the model.mlmodel
};

// `block` is the body of `function`. Errors do not name the file; the caller adds it.
Result<LoadedShard> read_function(const mlmodel::Function& function, const mlmodel::Block& block,
                                  const FunctionContext& context);

}  // namespace moec
