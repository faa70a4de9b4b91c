// Opening what --family-file and a checkpoint folder name.
#pragma once

#include <optional>
#include <string>

#include "frontends/hf/checkpoint.h"

namespace moec {

// The checkpoint in `folder`, read with the user's family descriptor where one is given.
Result<Checkpoint> open_source(const std::string& folder,
                               const std::optional<std::string>& family_file);

// The config alone of a folder or a config file, with a table of the tensors that it asks for
// (declared_weights, bf16): for plans without a checkpoint.
Result<Checkpoint> open_config_only(const std::string& source,
                                    const std::optional<std::string>& family_file);

// What moec plan takes: a checkpoint's folder, whose weights are located and checked; a folder
// without weights or a .json file, as with open_config_only; or the name of a published model
// (models/published/published.h). Error published.unknown where it is none of these.
Result<Checkpoint> open_for_plan(const std::string& source,
                                 const std::optional<std::string>& family_file);

}  // namespace moec
