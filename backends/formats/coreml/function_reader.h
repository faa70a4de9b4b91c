// Reads a function of an ML Program as a shard: consts, operations and ports in order. Types are
// inferred and compared with those that the program and the description state.
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

// The context that a function's meaning depends on.
struct FunctionContext {
  std::string name;
  Ports ports;
  CoremlMetadata metadata;
  std::string folder;  // of the model.mlmodel
};

// `block` is the body of `function`. The places of errors do not name the file.
Result<LoadedShard> read_function(const mlmodel::Function& function, const mlmodel::Block& block,
                                  const FunctionContext& context);

}  // namespace moec
