// The exports of all targets of one command, which go through their phases (export_phases.h)
// together: every target ends a phase before any target enters the next one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/output/folder_lock.h"
#include "frontends/export/export_options.h"
#include "frontends/export/export_phases.h"
#include "frontends/export/export_summary.h"

namespace moec {

class TargetExports {
 public:
  // Plans every target, locks every folder, then opens the journals. `targets` must outlive the
  // exports; the contract on them is that of export_targets() (export_model.h).
  static Result<TargetExports> open(std::span<const ExportOptions> targets);

  // Writes every folder. A failure ends with a note about what is kept in each folder.
  Result<std::vector<ExportSummary>> run() &&;

 private:
  TargetExports(std::vector<OpenExport> exports, std::optional<FolderLock> common,
                const ProgressCallback& progress);

  std::vector<std::shared_ptr<const OpenFolder>> folders_;  // locked until the end of run()
  std::vector<OpenExport> exports_;
  std::optional<FolderLock> common_;  // of the folder above those of several targets
  const ProgressCallback& progress_;
};

}  // namespace moec
