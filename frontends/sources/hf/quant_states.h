// Reads the descriptions that bitsandbytes stores next to its matrices: the only payload that this
// folder reads.
#pragma once

#include "frontends/sources/hf/index.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// For storage in nf4 and fp4, reads the JSON text of each needed matrix (quant_state_of() in
// models/tensors/stored_view.h), sets the block size of `model`, and adds decoded_state_of() to
// `weights`. For int8_rows, moves the signed bytes to the table, and requires integers in the order
// of rows. Does nothing for other storage.
// Matrices that are stored plain, or without a text, are skipped; check_tensors() reports missing
// texts. `model` must pass check_model(), and its names must be resolved.
// Errors: file.*, json.*, and hf.quant_state for a text that is longer than 4 KiB or that
// contradicts the config, the model or another matrix.
Status read_quant_states(ModelConfig& model, FolderWeights& weights);

}  // namespace moec
