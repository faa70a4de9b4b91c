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
  // Why the model can only be planned (Family::plan_only); empty: it can be exported.
  // NOLINTNEXTLINE(readability-redundant-member-init): lists of initializers may omit it
  std::string plan_only = {};
};

// Reads only metadata: the config, the headers of the files, and the texts of read_quant_states().
// `same` compares the bytes of a
// stored head with those of the embedding if the config ties the two (own_head.h). `user_family`
// may be null.
//
// If a descriptor has several names for a role, the first one that the files contain is used.
// Experts can be stored individually or fused; if both are present, the individual tensors are
// used.
//
// Of a model with image or audio towers, reads only the text model; the note hf.text_model reports
// the number of omitted tensors.
//
// Errors: those of read_config(), refuse_plan_only(), read_folder_weights(), read_quant_states()
// and `same`; for the needed tensors, all in one result:
//   hf.tensor.missing   with the role and the most similar existing name
//   hf.tensor.shape     with the expected and the found shape
//   hf.tensor.dtype     neither F32, F16 nor BF16, nor, with a quantization_config, a type that
//                       models/tensors/stored_view.h decodes
Result<Checkpoint> open_checkpoint(const std::string& folder, TensorsEqual& same,
                                   const Family* user_family = nullptr);

inline constexpr uint64_t kMaxConfigBytes = 16 << 20;

// Returns the path of a checkpoint folder's config.json, or `source` itself if it is a file.
std::string config_path(const std::string& source);
// Returns the folder of the config.json; "" for the current folder. For a file other than a .json
// file, returns `source` itself, so that no companion files are found.
std::string source_folder(const std::string& source);

// Returns the text of the config.json, which may have at most 16 MiB. Errors: those of
// explain_no_config() and read_text_file().
Result<std::string> read_config_text(const std::string& source);

// Call read_config() or explain_config() with the text of read_config_text().
Result<HfConfig> read_config_of(const std::string& source, const Family* user_family = nullptr);
Result<ExplainedConfig> explain_config_of(const std::string& source,
                                          const Family* user_family = nullptr);

// Reads only the config of a folder or a .json file, for planning without weights.
Result<HfConfig> open_config(const std::string& source, const Family* user_family = nullptr);

// Reads a user's family descriptor (models/families/README.md) of at most 16 MiB.
Result<Family> read_family_file(const std::string& path);

}  // namespace moec
