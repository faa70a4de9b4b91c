// A function of an ML Program as a shard: its consts, operations and ports in order, types inferred
// and compared with those that the program and the description state.
#pragma once

#include <string>

#include "frontends/coreml/coreml_metadata.h"
#include "frontends/coreml/ports.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

namespace mlmodel {
class Block;
class Function;
}  // namespace mlmodel

// What a function's meaning depends on besides itself.
struct FunctionContext {
  std::string name;
  Ports ports;
  CoremlMetadata metadata;
  std::string folder;  // of the model.mlmodel
};

// `block` is the body of `function`. Places name no file yet.
Result<LoadedShard> read_function(const mlmodel::Function& function, const mlmodel::Block& block,
                                  const FunctionContext& context);

}  // namespace moec
