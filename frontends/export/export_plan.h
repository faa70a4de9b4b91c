// Plans and checks the export of one target before anything is written.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/output/carried_files.h"
#include "backends/output/journal_text.h"
#include "backends/output/out_folder.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/encode/calibrated_encoder.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/compile/shard_packages.h"
#include "frontends/export/decoder_export.h"
#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"
#include "models/plan/cut_options.h"

namespace moec {

// The first phase of an export (export_phases.h).
struct PlannedExport {
  ExportOptions options;
  Plan plan;
  std::vector<ShardCut> cuts;
  WeightReader reader;
  std::shared_ptr<const CalibrationStats> calibration;  // may be null
  EncoderLimit encoder;                                 // limits encoding with `calibration`
  int workers = 1;                               // number of jobs, as far as the memory allows
  std::shared_ptr<const DecoderExport> decoder;  // null: the target has no decoder graph
  OutNames names;
  CarriedSource carried;
  Manifest manifest;                   // the fields that are known before files are written
  std::vector<ShardPackage> packages;  // to export: all, or those of OutputOptions::share
  uint64_t payload_bytes = 0;          // their weight bytes
  ExportInputs inputs;
  Diagnostics notes;
};

// Makes the plan and runs every check that needs no output file. Reads only the weights that
// check_sensitive_weights() examines and, with --fold-overflow, those of find_folds(). `fine`
// collects the sensitive weights that passed; all targets of an export share it. `targets` is the
// number of targets, which also share the memory. Errors: export.out_is_source, those of the plan,
// of its checks, of the checkpoint's files, of the calibration and of the memory budget.
Result<PlannedExport> plan_export(const ExportOptions& options, size_t targets,
                                  std::set<std::string>& fine);

}  // namespace moec
