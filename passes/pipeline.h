// The table of passes, the default pipeline, and run_pipeline, which alone owns order, skip,
// bisect, timing, dumps, the changed-check, verification and the reproducer.
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

// Checked once at start-up: each pass starts in the form where the one before it ended.
Status check_pipeline(std::span<const Pass* const> passes, Form start);

// Named passes, "lower_router,linear_to_conv"; an unknown name is an error with the nearest known
// one.
Result<std::vector<const Pass*>> parse_pipeline(std::string_view names);

struct RunOptions {
  std::vector<std::string> skip;        // names of passes to leave out
  std::optional<size_t> bisect;         // run only the first N passes
  std::vector<std::string> dump_after;  // names, or "all"
  std::string dump_dir;                 // for dumps and reproducers; empty: the working directory
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

// Dumps are named 0007.unroll_experts.changed.ir under dump_dir/<shard name>/. When a pass fails or
// its result does not verify, its input is written as reproducer <shard>.<pass>.repro.ir, whose
// first line runs that pass, and the error names the file.
Result<PipelineResult> run_pipeline(const Shard& shard, std::span<const Pass* const> passes,
                                    PassContext& context, const RunOptions& options = {});

}  // namespace moec
