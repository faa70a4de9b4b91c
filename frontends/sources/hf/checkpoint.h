// Opens a Hugging Face checkpoint folder: reads config.json, locates the weights that the model
// needs, and checks them.
#pragma once

#include <string>

#include "frontends/sources/hf/config.h"
#include "frontends/sources/hf/own_head.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "models/families/family.h"

namespace moec {

struct Checkpoint {
  ModelConfig config;
  WeightTable weights;
  Diagnostics warnings;
};

// Reads metadata only: the config and the headers of the files. `same` compares the bytes of a
// stored head and of the embedding that the config ties it to (own_head.h). `user_family` may be
// null.
//
// Where a descriptor gives several names for a role, the first one that the files contain is used.
// Experts may be stored one by one or fused; where both are present, one by one is used.
//
// Of a model that has towers for images or sound the text model is taken, and a note
// (hf.text_model) counts what is left out.
//
// Errors: those of read_config, read_folder_weights and `same`; for the needed tensors, all
// findings at once:
//   hf.tensor.missing   with role and the nearest existing name
//   hf.tensor.shape     expected and found
//   hf.tensor.dtype     neither F32, F16 nor BF16, nor, where the config has a quantization_config,
//                       a type that models/tensors/stored_view.h decodes
Result<Checkpoint> open_checkpoint(const std::string& folder, TensorsEqual& same,
                                   const Family* user_family = nullptr);

inline constexpr uint64_t kMaxConfigBytes = 16 << 20;

// The config.json of a checkpoint folder; the path itself where it names a file.
std::string config_path(const std::string& source);
// The folder of that config.json; "" for the current one. The path itself where it names another
// file than a .json file: no folder, in which no file can be found.
std::string source_folder(const std::string& source);

// The text of that config.json, which has at most 16 MiB. Errors: those of explain_no_config() and
// read_text_file().
Result<std::string> read_config_text(const std::string& source);

// read_config() and explain_config() of that text.
Result<HfConfig> read_config_of(const std::string& source, const Family* user_family = nullptr);
Result<ExplainedConfig> explain_config_of(const std::string& source,
                                          const Family* user_family = nullptr);

// Only the config of a folder or a .json file, for planning without weights.
Result<ModelConfig> open_config(const std::string& source, const Family* user_family = nullptr);

// Reads a user's family descriptor (models/families/README.md) of at most 16 MiB.
Result<Family> read_family_file(const std::string& path);

}  // namespace moec
