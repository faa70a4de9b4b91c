// The table of passes, the default pipeline, and run_pipeline(), which alone is responsible for
// order, skipping, bisecting, timing, dumps, verification and reproducers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace moec {

std::span<const Pass> all_passes();
const Pass* find_pass(std::string_view name);

// The passes that take a model-form shard to `placed` for these options, in order.
std::vector<const Pass*> default_pipeline(const PassOptions& options);

// Checks that each pass takes the form that the one before it returns; the first takes `start`.
Status check_pipeline(std::span<const Pass* const> passes, Form start);

// Passes by name, separated by commas: "lower_router,linear_to_conv". The error for an unknown name
// suggests the nearest known one.
Result<std::vector<const Pass*>> parse_pipeline(std::string_view names);

struct RunOptions {
  std::vector<std::string> skip;        // names of passes to leave out
  std::optional<size_t> bisect;         // run only the first N passes
  std::vector<std::string> dump_after;  // names, or "all"
  // For dumps and reproducers. Empty: dumps go into the working directory, a reproducer, which
  // nobody asked for, into a fresh folder for temporary files.
  std::string dump_dir;
  std::string subfolder;  // of dump_dir; keeps the files of several runs apart
};

struct PassReport {
  std::string pass;
  double seconds = 0;
  bool changed = false;
  size_t ops_before = 0, ops_after = 0;
};

struct PipelineResult {
  Shard shard;
  std::vector<PassReport> passes;
};

// Dumps are named 0007.unroll_experts.changed.ir under dump_dir/subfolder/<shard name>/. When a
// pass fails or its result does not verify, its input is written as reproducer
// <shard>.<pass>.repro.ir, whose first line runs that pass, and the last diagnostic, a note, names
// the file.
Result<PipelineResult> run_pipeline(const Shard& shard, std::span<const Pass* const> passes,
                                    PassContext& context, const RunOptions& options = {});

}  // namespace moec
