// The main job: a checkpoint becomes a folder of checked static shards with a manifest.
#pragma once

#include <optional>
#include <string>

#include "backends/coreml/emit_coreml.h"
#include "backends/manifest/manifest.h"
#include "ir/plan.h"
#include "passes/pipeline.h"

namespace moec {

struct ExportOptions {
  std::string source;                      // checkpoint folder; with a seed also a config file
  std::string out;                         // folder to write; see prepare_folder
  std::optional<std::string> family_file;  // a family descriptor instead of a compiled-in one
  // context 0: the smaller of the model's and 512; head_slices 0: what the target asks for
  BuildOptions build;
  PassOptions passes;
  CoremlOptions coreml;
  std::optional<uint64_t> weight_seed;  // noise instead of the checkpoint's weights
  bool ane_book = false;                // frontends/cli/ane_book.h
  RunOptions run;
  int jobs = 1;
  uint64_t memory_bytes = uint64_t{256} << 20;  // for the whole export, whatever the model's size
  bool force = false;
  bool quiet = false;
};

struct ExportSummary {
  Manifest manifest;
  Diagnostics notes;          // warnings and notes, in the order of the shards
  uint64_t bytes_read = 0;    // of the checkpoint's payload
  uint64_t weight_bytes = 0;  // in the shards
  uint64_t file_bytes = 0;    // of all files, gaps for alignment included
};

// Shards are compiled, emitted and freed one at a time on each of `jobs` threads; the bytes do not
// depend on their number. manifest.json is written last: a folder without one is not finished.
// Errors: those of every stage; of the first failing shard in plan order.
Result<ExportSummary> export_model(const ExportOptions& options);

}  // namespace moec
