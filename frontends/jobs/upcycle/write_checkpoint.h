// Writes the files of a planned checkpoint into a folder: config.json, the tensors, their index and
// the files of the tokenizer. Memory does not depend on the sizes of the tensors.
#pragma once

#include <string>
#include <vector>

#include "backends/formats/safetensors/safetensors_layout.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"

namespace moec {

struct WrittenFile {
  std::string name;
  uint64_t bytes = 0;
  std::string digest;  // xxh3-128
};

// The files of the tensors. Errors: those of plan_safetensors().
Result<std::vector<SafetensorsPart>> plan_files(const UpcyclePlan& plan, uint64_t max_bytes);

struct WrittenCheckpoint {
  std::vector<WrittenFile> files;  // in their order
  uint64_t nonfinite = 0;          // values that are NaN or infinite
};

// Errors: kUpcycleInterrupted, those of WeightReader,
// PieceWriter, OutputFile and carry_files().
Result<WrittenCheckpoint> write_checkpoint(const UpcycleOptions& options, const UpcyclePlan& plan,
                                           const std::vector<SafetensorsPart>& parts,
                                           const std::string& folder);

}  // namespace moec
