// Options for compilation: the source, the cuts and the passes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/formats/coreml/emit_coreml.h"
#include "frontends/sources/family_options.h"
#include "ir/experts/top_k_policy.h"
#include "ir/model/plan.h"
#include "models/cluster/plan_devices.h"
#include "models/plan/cut_options.h"
#include "models/tensors/fold_scales.h"
#include "passes/pipeline.h"

namespace moec {

// The model to export, or its first layers.
struct SourceOptions {
  std::string path;  // checkpoint folder; with a weight seed also a single config file
  FamilyOptions family;
  int64_t layers = 0;                   // export only the first N layers; 0: all
  std::optional<uint64_t> weight_seed;  // random weights instead of the checkpoint's
};

// Experts that tokens can choose, and the number of experts per token.
struct ChoiceOptions {
  std::string mask;          // value of --expert-mask (ir/experts/expert_sets.h); empty: no mask
  bool drop_masked = false;  // leave masked experts out of the shards
  std::string top_k;  // value of --top-k (ir/experts/top_k_variants.h); empty: as in the checkpoint
  // File with rules that select a variant (ir/experts/top_k_policy.h); empty: no rules.
  std::string policy;
  TopKPolicy rules;  // set by plan_export()
};

// Options for cutting a model into shards and compiling the shards for one target.
struct CompileOptions {
  BuildOptions build;   // resolve_build() fills in the fields that depend on the model
  std::string kv, mla;  // values of --kv and --mla; empty: not given
  CutOptions cuts;
  DeviceOptions devices;  // devices to which the manifest assigns shards; may be empty
  PassOptions passes;     // includes the target
  std::optional<std::string> target_file;  // file of passes.target; absent: built-in target
  std::string chip;                        // chip whose rules apply; empty: rules of every chip
  CoremlOptions coreml;
  RunOptions run;
  ChoiceOptions choice;
  bool fold_overflow = false;  // find_folds.h
  std::string calibration;  // folder of calibration statistics (calibrated_inputs.h); empty: none
  // Maximum number of inputs of a matrix per block of moments; 0: as many as fit in memory.
  int64_t calibration_inputs = 0;
  ScaleFolds folds;  // set by plan_export()
};

// Invalid weight values that an export accepts with a warning.
struct ValueOptions {
  bool overflow = false;   // finite in the checkpoint, infinite in the exported element type
  bool nonfinite = false;  // NaN or infinite in the checkpoint
};

struct ExportResources {
  // Number of shards compiled and written at the same time. 0: as many as fit in memory, at most 4.
  int jobs = 1;
  // Maximum memory of the whole process. An export that needs more fails before it writes a file.
  uint64_t memory_bytes = uint64_t{256} << 20;
};

}  // namespace moec
