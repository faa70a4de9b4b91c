// Options of `moec prune`, for programs without a command line.
#pragma once

#include <cstdint>
#include <string>

#include "frontends/checkpoint/write_checkpoint.h"
#include "frontends/sources/family_options.h"
#include "ir/base/enum_table.h"

namespace moec {

inline constexpr CheckpointMaker kPrune{"prune", "pruning"};

// Scores of experts, from an expert profile (ir/experts/expert_profile.h).
//   saliency  mean over the expert's tokens of routing weight · |f(x)|: REAP (arXiv 2510.13999)
//   mass      sum of its routing weights
//   count     number of tokens that selected it
//   norm      mean over its tokens of |f(x)|
enum class PruneScore : uint8_t { saliency, mass, count, norm };
constexpr auto enum_names(PruneScore) {
  return name_table<PruneScore>({"saliency", "mass", "count", "norm"});
}

struct PruneOptions {
  std::string source;  // checkpoint folder
  FamilyOptions family;
  // Either a number of experts per layer, which are chosen by a score of a profile, or a mask that
  // names them (read_expert_mask()).
  int64_t keep = 0;
  PruneScore by = PruneScore::saliency;
  std::string profile;
  std::string mask;
  CheckpointOutput output;
  bool dry_run = false;  // plan and report only
  WriteHooks hooks;
};

}  // namespace moec
