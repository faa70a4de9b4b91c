#include "frontends/export/export_model.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "backends/formats/format.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"
#include "backends/output/part_journals.h"
#include "frontends/export/export_gguf.h"
#include "frontends/export/export_phases.h"
#include "frontends/export/export_summary.h"
#include "frontends/export/options/export_options.h"

namespace moec {

namespace {

// The exports of all targets of one command. The targets advance through the phases
// (export_phases.h) together: every target completes a phase before any target begins the next one.
class TargetExports {
 public:
  // Plans every target, locks every folder, then opens the journals. `targets` must outlive the
  // result and satisfy the contract of export_targets() (export_model.h).
  static Result<TargetExports> open(std::span<const ExportOptions> targets);

  // Writes every folder. A failure includes a note per folder about the parts that are kept.
  Result<std::vector<ExportSummary>> run() &&;

 private:
  TargetExports(std::vector<OpenExport> exports, std::optional<FolderLock> common,
                const ProgressCallback& progress);

  std::vector<std::shared_ptr<const OpenFolder>> folders_;  // locked until the end of run()
  std::vector<OpenExport> exports_;
  std::optional<FolderLock> common_;  // lock of the parent folder, with several targets
  const ProgressCallback& progress_;
};

Result<std::vector<PlannedExport>> plan_targets(std::span<const ExportOptions> targets) {
  // All targets share `fine`, so a weight that passed for one target is not read again.
  std::set<std::string> fine;
  std::vector<PlannedExport> exports;
  for (const ExportOptions& options : targets) {
    MOEC_ASSIGN(PlannedExport planned, plan_export(options, targets.size(), fine));
    exports.push_back(std::move(planned));
  }
  return exports;
}

// Advances each export to its next phase with `step`, in target order.
template <class Next, class Phase, class Step>
Result<std::vector<Next>> advance_each(std::vector<Phase> exports, Step step) {
  std::vector<Next> advanced;
  for (Phase& one : exports) {
    MOEC_ASSIGN(Next next, step(std::move(one)));
    advanced.push_back(std::move(next));
  }
  return advanced;
}

// Refuses a target's folder that is a symbolic link. The user named only its parent, and links
// below --out are not followed.
Status check_no_link(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_symlink(std::filesystem::symlink_status(folder, error))) return {};
  return fail("export.out_not_folder", "the folder of a target is a symbolic link",
              "remove the link, or choose another --out", {.file = folder});
}

// Locks the parent folder of several targets like the folder of a single target. An export for one
// target into the parent and an export for several targets therefore exclude each other. Refuses a
// parent that contains an export for one target, because its files would be mixed with the folders
// of the targets.
Result<std::optional<FolderLock>> lock_common_folder(std::span<const ExportOptions> targets) {
  if (targets.size() < 2) return std::nullopt;
  const std::string folder =
      std::filesystem::path(targets.front().output.folder).parent_path().string();
  // The lock file needs an existing folder.
  MOEC_TRY(create_folder(folder));
  for (const ExportOptions& target : targets) MOEC_TRY(check_no_link(target.output.folder));
  MOEC_ASSIGN(FolderLock lock, FolderLock::take(folder));
  // Checked after locking, so that no other process can begin such an export afterwards.
  if (holds_export(folder) || has_part_journals(folder))
    return fail("export.out_not_empty", "the output folder contains an export for one target",
                "choose another --out for several targets", {.file = folder});
  return lock;
}

Result<std::vector<ExportedParts>> export_parts(const std::vector<PreparedExport>& exports,
                                                const ProgressCallback& progress) {
  // The total must be known before the first report, because progress is a fraction of it.
  uint64_t payload = 0;
  for (const PreparedExport& prepared : exports) payload += prepared.payload_bytes();
  const PayloadCallback advance = [&](uint64_t bytes, const std::string& part) {
    if (progress) progress(bytes, payload, part);
  };
  advance(0, {});
  std::vector<ExportJob> jobs;
  // The jobs refer to `exports` and `advance`, which outlive them in this function.
  for (const PreparedExport& prepared : exports) jobs.push_back(prepared.job(advance));
  // export_parts() uses `workers` of the first job for all targets. The minimum fits the memory
  // of every target.
  for (const ExportJob& job : jobs)
    jobs.front().workers = std::min(jobs.front().workers, job.workers);
  return export_parts(jobs);
}

Result<std::vector<ExportSummary>> write_folders(std::vector<OpenExport> exports,
                                                 const ProgressCallback& progress) {
  MOEC_ASSIGN(auto prepared,
              advance_each<PreparedExport>(
                  std::move(exports), [](OpenExport&& open) { return std::move(open).prepare(); }));
  MOEC_ASSIGN(std::vector<ExportedParts> parts, export_parts(prepared, progress));
  if (prepared.front().is_share())  // a share has one target: check_one_target()
    return std::vector{std::move(prepared.front()).end_share(std::move(parts.front()))};
  // `parts` is parallel to `prepared`, and advance_each() proceeds in order.
  auto next = parts.begin();
  MOEC_ASSIGN(auto finished,
              advance_each<WrittenExport>(std::move(prepared), [&](PreparedExport&& written) {
                return std::move(written).finish(std::move(*next++));
              }));
  return remove_journals(std::move(finished));
}

TargetExports::TargetExports(std::vector<OpenExport> exports, std::optional<FolderLock> common,
                             const ProgressCallback& progress)
    : exports_(std::move(exports)), common_(std::move(common)), progress_(progress) {
  // run() consumes exports_. The shared folders keep the locks until the notes of a failure are
  // made.
  for (const OpenExport& open : exports_) folders_.push_back(open.folder());
}

Result<TargetExports> TargetExports::open(std::span<const ExportOptions> targets) {
  // Plans first, because locking creates the folders, and a refused plan must leave no folder.
  MOEC_ASSIGN(std::vector<PlannedExport> planned, plan_targets(targets));
  MOEC_ASSIGN(std::optional<FolderLock> common, lock_common_folder(targets));
  MOEC_ASSIGN(auto locked, advance_each<LockedExport>(std::move(planned), &LockedExport::lock));
  // Checked after locking: an export for several targets needs the same lock to create its
  // subfolders, so none can appear later.
  if (targets.size() == 1) MOEC_TRY(check_not_common(targets.front().output.folder));
  MOEC_ASSIGN(std::vector<OpenExport> exports, open_exports(std::move(locked)));
  return TargetExports(std::move(exports), std::move(common), targets.front().callbacks.progress);
}

Result<std::vector<ExportSummary>> TargetExports::run() && {
  auto summaries = write_folders(std::move(exports_), progress_);
  if (!summaries)
    for (const auto& folder : folders_) folder->note_unfinished(summaries.error());
  return summaries;
}

bool has_graphs(const ExportOptions& options) {
  return format_of(options.compile.passes.target.format).shape == FormatShape::graphs;
}

// Shares are below the folder of one target.
Status check_one_target(std::span<const ExportOptions> targets) {
  const OutputOptions& output = targets.front().output;
  if (targets.size() == 1 || (!output.share && !output.join)) return {};
  return fail("export.flags", "--part and --join apply to a single target",
              "export for each target separately, each into its own folder");
}

}  // namespace

Result<std::vector<ExportSummary>> export_targets(std::span<const ExportOptions> targets) {
  if (!std::all_of(targets.begin(), targets.end(), has_graphs)) {
    if (targets.size() > 1)
      return fail("export.flags", "a weights-only target cannot be combined with other targets",
                  "export for each target separately");
    MOEC_ASSIGN(ExportSummary summary, export_gguf(targets.front()));
    return std::vector<ExportSummary>{std::move(summary)};
  }
  MOEC_TRY(check_one_target(targets));
  MOEC_ASSIGN(TargetExports exports, TargetExports::open(targets));
  return std::move(exports).run();
}

Result<ExportSummary> export_model(const ExportOptions& options) {
  MOEC_ASSIGN(std::vector<ExportSummary> summaries, export_targets({&options, 1}));
  return std::move(summaries.front());
}

}  // namespace moec
