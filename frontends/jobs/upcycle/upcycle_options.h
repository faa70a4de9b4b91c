// Options of `moec upcycle`, for programs without a command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/checkpoint/write_checkpoint.h"
#include "frontends/sources/family_options.h"
#include "ir/base/enum_table.h"
#include "ir/graph/type.h"

namespace moec {

inline constexpr CheckpointMaker kUpcycle{"upcycle", "upcycling"};

// Initialisation of experts.
//   copy           each expert is the whole feed-forward part
//   virtual_group  groups of G experts with equal router rows, each with 1/G of the hidden units
//   partition      one group: the experts are disjoint parts of the hidden units
//   drop           copies with a share of the units redrawn (Drop-Upcycling, arXiv 2502.19261)
enum class ExpertInit : uint8_t { copy, virtual_group, partition, drop };
constexpr auto enum_names(ExpertInit) {
  return name_table<ExpertInit>({"copy", "virtual-group", "partition", "drop"});
}

// Initialisation of router rows.
//   shared       one random row per group, equal for its experts ("virtual")
//   independent  one random row per expert ("random")
//   zero         zeros
enum class RouterInit : uint8_t { shared, independent, zero };
constexpr auto enum_names(RouterInit) {
  return name_table<RouterInit>({"virtual", "random", "zero"});
}

// Matrices of an expert that carry the factor s (upcycle_algebra.h).
//   down          s on down
//   sqrt_up_down  the square root of s on up and on down
//   megatron      the cube root of s on all matrices (arXiv 2410.07524, for gated parts and squared
//                 ReLUs)
enum class ScaleRule : uint8_t { down, sqrt_up_down, megatron };
constexpr auto enum_names(ScaleRule) {
  return name_table<ScaleRule>({"down", "sqrt-up-down", "megatron"});
}

// Number and sizes of experts; 0 or empty: moec chooses.
struct ExpertShape {
  int64_t experts = 0, top_k = 0;
  int64_t granularity = 0;      // G: experts per group, each with 1/G of the hidden units
  int64_t shared_width = 0;     // hidden units of the shared expert, taken from the first ones
  std::vector<int64_t> layers;  // layers that get experts; empty: all
  std::string arch;             // model_type of the new model; empty: the first that fits
};

struct ExpertStart {
  ExpertInit init = ExpertInit::copy;
  double drop = 0;  // share of units to redraw, for ExpertInit::drop
  RouterInit router = RouterInit::shared;
  double router_std = 0.02;
  ScaleRule scale = ScaleRule::down;
  double noise = 0;  // standard deviation of noise on each expert weight
  uint64_t seed = 0;
  bool normalised = true;  // routing weights of the picked experts sum to one
};

// Models whose feed-forward parts become experts.
struct ExpertSources {
  std::vector<std::string> experts;   // checkpoint folders of the dense model's shape
  std::vector<std::string> adapters;  // folders of low-rank adapters (PEFT) of the dense model
  // Copies per expert of a source that is an MoE; 0: the source is dense.
  int64_t multiply = 0;
};

// Options for running both models on the same tokens.
struct VerifyOptions {
  bool run = false;
  std::vector<std::string> texts;  // files
  std::string tokens_file;         // file of token ids; without texts and file, pseudo-random ids
  int64_t window = 64;
  // Maximum relative error of logits. None: default_max_error() in upcycle_model.cc.
  std::optional<double> max_error;
};

struct UpcycleOptions {
  std::string source;  // checkpoint folder
  FamilyOptions family;
  ExpertShape shape;
  ExpertStart start;
  ExpertSources sources;
  CheckpointOutput output;
  std::optional<DType> dtype;  // of all tensors; none: the types of the source
  VerifyOptions verify;
  bool dry_run = false;  // plan and report only
  WriteHooks hooks;
};

// Returns the options for reading the new model's config: the options of the source if the model
// keeps its family, and defaults otherwise.
inline FamilyOptions result_family(const UpcycleOptions& options) {
  return options.sources.multiply > 0 ? options.family : FamilyOptions{};
}

}  // namespace moec
