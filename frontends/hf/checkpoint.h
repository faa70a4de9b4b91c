// A Hugging Face checkpoint folder: config.json, and the weights that it needs, located and
// checked.
#pragma once

#include <string>

#include "frontends/hf/config.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/plan/model_config.h"
#include "models/families/family.h"

namespace moec {

struct Checkpoint {
  ModelConfig config;
  WeightTable weights;
  Diagnostics warnings;
};

// Reads metadata only: the config and the files' headers. `user_family` may be null.
//
// Where a descriptor gives several names for a role, the first that the files have is taken.
// Experts may be stored one by one or fused; one by one is preferred when both are there.
//
// Errors: those of read_config and read_folder_weights, and for the needed tensors, all at once:
//   hf.tensor.missing   with role and the nearest existing name
//   hf.tensor.shape     expected and found
//   hf.tensor.dtype     stored as something else than F32, F16, BF16 or, where the config says so,
//                       what models/tensors/stored_view.h decodes
Result<Checkpoint> open_checkpoint(const std::string& folder, const Family* user_family = nullptr);

// The config.json that a checkpoint folder or a path to a .json file stands for.
std::string config_path(const std::string& source);
// The folder in which it lies; "" for the current one.
std::string source_folder(const std::string& source);

// read_config() and explain_config() of it.
Result<HfConfig> read_config_of(const std::string& source, const Family* user_family = nullptr);
Result<ExplainedConfig> explain_config_of(const std::string& source,
                                          const Family* user_family = nullptr);

// The config alone, for planning without weights, of a folder or a .json file.
Result<ModelConfig> open_config(const std::string& source, const Family* user_family = nullptr);

// A user's family descriptor (models/families/README.md).
Result<Family> read_family_file(const std::string& path);

}  // namespace moec
