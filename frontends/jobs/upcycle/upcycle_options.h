// What `moec upcycle` is asked to do, as a program without a command line would say it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontends/sources/family_options.h"
#include "ir/base/enum_table.h"
#include "ir/graph/type.h"

namespace moec {

// The code of the error that ends an upcycling when UpcycleOptions::stop returns true.
inline constexpr const char* kUpcycleInterrupted = "upcycle.interrupted";

// How experts begin.
//   copy           each is the whole feed-forward part
//   virtual_group  groups of G experts, each a G-th of the hidden units, with one router row
//   partition      one group: each expert is its own part of the hidden units
//   drop           copies, a share of whose units is drawn anew (Drop-Upcycling, arXiv 2502.19261)
enum class ExpertInit : uint8_t { copy, virtual_group, partition, drop };
constexpr auto enum_names(ExpertInit) {
  return name_table<ExpertInit>({"copy", "virtual-group", "partition", "drop"});
}

// How router rows begin.
//   shared       drawn once for each group of experts, whose rows are equal ("virtual")
//   independent  drawn for each expert ("random")
//   zero         all zero
enum class RouterInit : uint8_t { shared, independent, zero };
constexpr auto enum_names(RouterInit) {
  return name_table<RouterInit>({"virtual", "random", "zero"});
}

// Which matrices of an expert take the factor that makes a group's sum the dense result.
//   down          s on down
//   sqrt_up_down  the square root of s on up and on down
//   megatron      the cube root of s on all matrices, as arXiv 2410.07524 has it for gated parts
//                 and squared ReLUs
enum class ScaleRule : uint8_t { down, sqrt_up_down, megatron };
constexpr auto enum_names(ScaleRule) {
  return name_table<ScaleRule>({"down", "sqrt-up-down", "megatron"});
}

// The number of experts and their sizes; 0 or nothing: chosen by the command.
struct ExpertShape {
  int64_t experts = 0, top_k = 0;
  int64_t granularity = 0;      // G: experts of a group, each with a G-th of the hidden units
  int64_t shared_width = 0;     // hidden units of the shared expert: the first ones
  std::vector<int64_t> layers;  // that get experts; empty: all
  std::string arch;             // model_type of the new model; empty: the first that fits
};

struct ExpertStart {
  ExpertInit init = ExpertInit::copy;
  double drop = 0;  // share of the units, with `drop`
  RouterInit router = RouterInit::shared;
  double router_std = 0.02;
  ScaleRule scale = ScaleRule::down;
  double noise = 0;  // standard deviation of what is added to each weight of an expert
  uint64_t seed = 0;
  bool normalised = true;  // weights of the chosen experts sum to one
};

// Models whose feed-forward parts become experts.
struct ExpertSources {
  std::vector<std::string> experts;   // checkpoint folders of the dense model's shape
  std::vector<std::string> adapters;  // folders of low-rank adapters of the dense model (PEFT)
  // The source has experts already, each of which becomes so many; 0: it is dense.
  int64_t multiply = 0;
};

struct UpcycleOutput {
  std::string folder;
  uint64_t max_shard_bytes = uint64_t{5} << 30;
  std::optional<DType> dtype;  // of all tensors; none: as the source stores them
  bool force = false;          // replaces an earlier result
};

// A run of both models on the same tokens.
struct VerifyOptions {
  bool run = false;
  std::vector<std::string> texts;  // files
  std::string tokens_file;         // or token ids; without either, bundled ones
  int64_t window = 64;
  double max_error = 1e-5;  // relative; a larger one is a failure
};

struct UpcycleOptions {
  std::string source;  // checkpoint folder
  FamilyOptions family;
  ExpertShape shape;
  ExpertStart start;
  ExpertSources sources;
  UpcycleOutput output;
  VerifyOptions verify;
  bool dry_run = false;  // plans and reports, writes nothing
  // Each may be empty. `progress` is told of written bytes, those of all files, and the file.
  std::function<bool()> stop;
  std::function<void(uint64_t bytes, uint64_t total, const std::string& file)> progress;
};

// How the config of the new model is read: as that of the source if it stays of its family.
inline FamilyOptions result_family(const UpcycleOptions& options) {
  return options.sources.multiply > 0 ? options.family : FamilyOptions{};
}

}  // namespace moec
