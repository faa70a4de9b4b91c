// Opens checkpoints as commands name them: by folder, config file or published name, with an
// optional family descriptor.
#pragma once

#include <optional>
#include <string>

#include "frontends/hf/checkpoint.h"

namespace moec {

// The checkpoint in `folder`, read with the user's family descriptor if there is one. `same` is
// that of open_checkpoint().
Result<Checkpoint> open_source(const std::string& folder,
                               const std::optional<std::string>& family_file, TensorsEqual& same);

// Only the config of a folder or a config file, with a table of the tensors that the model would
// need (declared_weights, bf16). For plans without a checkpoint.
Result<Checkpoint> open_config_only(const std::string& source,
                                    const std::optional<std::string>& family_file);

// The sources of `moec plan`: a checkpoint folder, whose weights are located and checked; a folder
// without weights or a .json file, as in open_config_only; or the name of a published model
// (models/published/published.h). Error published.unknown for anything else.
Result<Checkpoint> open_for_plan(const std::string& source,
                                 const std::optional<std::string>& family_file, TensorsEqual& same);

}  // namespace moec
