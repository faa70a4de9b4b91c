// Options that decide what is compiled: the source, the cuts, the form of the shards.
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

// The model to export, or the part of it.
struct SourceOptions {
  std::string path;  // checkpoint folder; with a weight seed also a single config file
  FamilyOptions family;
  int64_t layers = 0;                   // export only the first N layers; 0: all
  std::optional<uint64_t> weight_seed;  // random weights instead of the checkpoint's
};

// Which experts tokens take, and how many.
struct ChoiceOptions {
  std::string mask;   // value of --expert-mask (ir/experts/expert_sets.h); may be empty
  std::string top_k;  // value of --top-k (ir/experts/top_k_forms.h); empty: as the checkpoint says
  std::string
      policy;  // a file of rules that choose among these (ir/experts/top_k_policy.h), or empty
  TopKPolicy rules;  // found by plan_export()
};

// How the model is cut into shards and compiled for one target.
struct CompileOptions {
  BuildOptions build;   // resolve_build() fills in what depends on the model
  std::string kv, mla;  // values of --kv and --mla; empty: not given
  CutOptions cuts;
  DeviceOptions devices;  // devices that the manifest assigns shards to; may be empty
  PassOptions passes;     // with the target
  std::optional<std::string> target_file;  // where passes.target was read from; none: built in
  std::string chip;                        // chip whose rules apply; empty: those of every chip
  CoremlOptions coreml;
  RunOptions run;
  ChoiceOptions choice;
  bool fold_overflow = false;  // find_folds.h
  std::string calibration;  // folder that codes are chosen with (calibrated_inputs.h); may be empty
  // The most inputs of a matrix whose moments are taken together; 0: as many as the memory holds.
  int64_t calibration_inputs = 0;
  ScaleFolds folds;  // found by plan_export()
};

// Which values of weights an export accepts although results that they take part in are useless.
struct ValueOptions {
  bool overflow = false;   // finite in the checkpoint, infinite in the element type of the export
  bool nonfinite = false;  // NaN or infinite in the checkpoint
};

struct ExportResources {
  // Shards compiled and written at the same time. 0: as many as the memory has room for, at most 4.
  int jobs = 1;
  // Upper bound for the memory of the whole process, whatever the size of the model: what an export
  // needs beyond it is an error before anything is written.
  uint64_t memory_bytes = uint64_t{256} << 20;
};

}  // namespace moec
