// Writes a planned checkpoint into a folder, tensor by tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/formats/safetensors/safetensors_layout.h"
#include "backends/output/carried_files.h"
#include "frontends/checkpoint/checkpoint_maker.h"
#include "frontends/checkpoint/result_folder.h"
#include "frontends/checkpoint/tensor_recipe.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

// Distributes the tensors over files of at most `max_bytes`. Errors: those of plan_safetensors().
Result<std::vector<SafetensorsPart>> plan_files(const std::vector<NewTensor>& tensors,
                                                uint64_t max_bytes);

// The contents of a new checkpoint. The references must outlive the call that uses them.
struct NewCheckpoint {
  const std::string& config_text;
  const std::vector<NewTensor>& tensors;
  const WeightTable& weights;  // source tensors of the pieces
  CarriedSource carried;       // tokenizer and other text files
};

// Each callback may be empty. `stop` returns true to interrupt the run. `progress` receives the
// bytes written since its previous call, the total, and the current file.
struct WriteHooks {
  std::function<bool()> stop;
  std::function<void(uint64_t bytes, uint64_t total, const std::string& file)> progress;
};

struct CheckpointOutput {
  std::string folder;
  uint64_t max_shard_bytes = uint64_t{5} << 30;
  bool force = false;  // replace an earlier result
};

// The command that writes a checkpoint, and where. The references must outlive the call.
struct CheckpointTarget {
  const CheckpointMaker& maker;
  const CheckpointOutput& output;
  const WriteHooks& hooks;
};

struct WrittenCheckpoint {
  std::vector<WrittenFile> files;  // in the order of writing
  uint64_t nonfinite = 0;          // number of source values that are NaN or infinite
};

// Writes config.json, the tensors, their index and the carried files into a ResultFolder, and
// publishes the folder if check(unfinished folder) succeeds. `parts` is the result of plan_files().
// Memory does not depend on tensor sizes. Errors: CheckpointMaker::interrupted(), those of
// WeightReader, PieceWriter, OutputFile, carry_files(), ResultFolder and `check`.
Result<WrittenCheckpoint> publish_checkpoint(
    const NewCheckpoint& checkpoint, const std::vector<SafetensorsPart>& parts,
    const CheckpointTarget& target, const std::function<Status(const std::string& folder)>& check);

}  // namespace moec
