// The table of passes, the default pipeline, and run_pipeline(), which handles order, skipping,
// bisecting, timing, dumps, verification and reproducers for all passes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace moec {

std::span<const Pass> all_passes();
const Pass* find_pass(std::string_view name);

// The passes that lower a shard from form `model` to `placed` for these options, in order.
std::vector<const Pass*> default_pipeline(const PassOptions& options);

// Checks that each pass requires the form that the previous one returns; the first requires
// `start`.
Status check_pipeline(std::span<const Pass* const> passes, Form start);

// Parses comma-separated pass names: "lower_router,linear_to_conv". The error for an unknown name
// suggests the nearest known name.
Result<std::vector<const Pass*>> parse_pipeline(std::string_view names);

struct RunOptions {
  std::vector<std::string> skip;        // names of passes to skip
  std::optional<size_t> bisect;         // run only the first N passes
  std::vector<std::string> dump_after;  // names, or "all"
  // Folder for dumps and reproducers. Empty: dumps are written to the working directory, and
  // reproducers, which the user did not request, to a new temporary folder.
  std::string dump_dir;
  std::string subfolder;  // of dump_dir; separates the files of several runs
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

// Runs the passes that `options` selects. Dumps are named 0007.unroll_experts.changed.ir under
// dump_dir/subfolder/<shard name>/. If a pass fails or its result does not verify, the input of the
// pass is written as the reproducer <shard>.<pass>.repro.ir. The first line of that file runs the
// pass; the last diagnostic, a note, names the file.
Result<PipelineResult> run_pipeline(const Shard& shard, std::span<const Pass* const> passes,
                                    PassContext& context, const RunOptions& options = {});

}  // namespace moec
