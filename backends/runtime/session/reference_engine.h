// The reference executor as an engine. It reads emitted files back into the IR and runs them op by
// op.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/reference/products.h"
#include "backends/runtime/session/engine.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// Reads the graph of one token width of a shard in `folder` back into the IR. The caller supplies
// the reader because the runtime is independent of file formats; backends/formats/read_shard.h
// reads all formats.
using ShardReader = std::function<Result<LoadedShard>(
    const Manifest& manifest, const std::string& folder, const manifest::Width& width)>;

// Returns the reference executor as the engine `reference`. Errors of compile(): those of the
// reader and of Executor::create(); with ceilings, router.no_choice (ir/analysis/router_choice.h).
std::shared_ptr<Engine> reference_engine(ShardReader read_shard);

// Returns the same executor as an engine with this name and these activations, with the kernels
// `products` for matrix products.
std::shared_ptr<Engine> executor_engine(EngineTraits traits, ShardReader read_shard,
                                        std::shared_ptr<const Products> products);

}  // namespace moec
