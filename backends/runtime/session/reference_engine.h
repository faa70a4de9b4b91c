// The reference executor as an engine: emitted files are read back into the IR and run op by op.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/runtime/session/engine.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// Reads the graph of one token width of a shard in `folder` back into the IR. It is passed in
// because the runtime knows no file formats; backends/formats/read_shard.h reads all of them.
using ShardReader = std::function<Result<LoadedShard>(
    const Manifest& manifest, const std::string& folder, const manifest::Width& width)>;

// Its compile() gives the errors of the reader and of Executor::create(), and with ceilings
// router.no_choice (ir/analysis/router_choice.h).
std::shared_ptr<Engine> reference_engine(ShardReader read_shard);

}  // namespace moec
