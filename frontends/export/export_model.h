// The main job: a checkpoint becomes a folder of checked static shards with a manifest.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/coreml/emit_coreml.h"
#include "backends/manifest/manifest.h"
#include "ir/plan/plan.h"
#include "models/plan/cut_shards.h"
#include "models/plan/plan_devices.h"
#include "passes/pipeline.h"

namespace moec {

// `bytes` more of a payload of `total` are written, those of `part` (a shard or a table). Told once
// with 0 bytes and no part when writing begins.
using ProgressCallback =
    std::function<void(uint64_t bytes, uint64_t total, const std::string& part)>;

struct ExportOptions {
  std::string source;                      // checkpoint folder; with a seed also a config file
  std::string out;                         // folder to write
  std::optional<std::string> family_file;  // a family descriptor instead of a compiled-in one
  std::optional<std::string> target_file;  // that passes.target was read from, if any
  std::string chip;                        // that its rules were chosen for; empty: those of all
  BuildOptions build;   // as build_options gives it; what depends on the model is filled in
  std::string kv, mla;  // as they were asked for; empty: no form in particular
  CutOptions cuts;
  DeviceOptions devices;  // that the manifest assigns shards to, if any
  PassOptions passes;
  CoremlOptions coreml;
  int64_t layers = 0;                   // only the first ones; 0: all
  std::optional<uint64_t> weight_seed;  // noise instead of the checkpoint's weights
  bool ane_book = false;                // frontends/export/ane_book.h
  bool sha256 = false;                  // of each file as well, in the manifest
  bool onnx_checksum = false;           // OnnxOptions::checksum
  RunOptions run;
  int jobs = 1;
  uint64_t memory_bytes = uint64_t{256} << 20;  // for the whole export, whatever the model's size
  bool force = false;          // start anew, in place of what an earlier export left
  std::function<bool()> stop;  // asked between tiles, by several threads; may be empty
  ProgressCallback progress;   // told by several threads; may be empty
};

// The error of an export that `stop` ended.
inline constexpr const char* kExportInterrupted = "export.interrupted";

struct ExportSummary {
  Manifest manifest;
  Diagnostics notes;          // warnings and notes, in the order of the shards
  uint64_t bytes_read = 0;    // of the checkpoint's payload
  uint64_t weight_bytes = 0;  // in the shards
  uint64_t file_bytes = 0;    // of all files, gaps for alignment included
  size_t parts_kept = 0;      // tables and shards that an earlier run had finished
};

// Shards are compiled, emitted and freed one at a time on each of `jobs` threads; the bytes do not
// depend on their number. manifest.json is written last: a folder without one is not finished.
//
// The folder is empty, or holds an unfinished export of the same inputs and options (journal.h):
// then what is finished there, and has its digests, is kept, and the result has the same bytes as
// if nothing had happened. While it runs, the folder is locked (folder_lock.h).
//
// Errors: those of every stage, of the first failing shard in plan order; export.out_not_empty,
// export.differs, export.locked, export.interrupted. A note export.unfinished tells what is done.
Result<ExportSummary> export_model(const ExportOptions& options);

// The same for several targets of one checkpoint, each in a folder of its own with the bytes that
// export_model() gives there; summaries and errors in their order. The folders lie in one, which
// holds no export itself (export.out_not_empty) and is locked as well. What is of the same bytes in
// several is read from the checkpoint once, and counted where it was read. Source, layers, seed,
// jobs, memory, force, stop and progress must be the same for all; memory is for all together. One
// failing target ends the export; no folder is finished before all are.
Result<std::vector<ExportSummary>> export_targets(std::span<const ExportOptions> targets);

}  // namespace moec
