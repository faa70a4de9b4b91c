// The flags that choose the interface of shards and how far the model is cut into them. Shared by
// export and plan.
#pragma once

#include <string>
#include <vector>

#include "models/plan/cut_shards.h"
#include "passes/pass.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct ShardFlags {
  std::string dtype, kv, layout, mla;  // empty: what the target prefers
  std::vector<int64_t> tokens = {1};
  int64_t context = 0, experts_per_shard = 0, head_slices = 0;
  std::string layers_per_shard;  // a number, or "fit"
  std::string expert_groups;     // a file
  std::vector<std::string> max_shard_mb;
  std::string weights;       // empty: as float
  std::string expert_align;  // empty: 64 KiB with --experts-per-shard
  bool allow_over_budget = false;
};

void add_shard_flags(CLI::App& command, ShardFlags& flags);

// Gives projections the form that the target needs for --weights, unless --form (`form`) is given.
// Errors: those of parse_weight_policy(); weights.form where the target does not take a form.
Status choose_projection(const ShardFlags& flags, const std::string& form, Target& target);

// context 0 and head_slices 0 are chosen later, when the model is known (resolve_build).
// Errors: those of choose_projection(), which was called before; export.flags: a flag asks for
// something that the target does not have.
Result<BuildOptions> build_options(const ShardFlags& flags, const PassOptions& passes);

// The value of --expert-align in bytes; 0: the alignment of the format. Error export.flags: it is
// no power of two from 64 to 2^30.
Result<uint64_t> expert_alignment(const ShardFlags& flags);

// Errors: those of parse_budgets(); plan.layers_per_shard where it is neither a number nor "fit".
Result<CutOptions> cut_options(const ShardFlags& flags, const Target& target);

}  // namespace moec
