#include "frontends/export/export_model.h"

#include <filesystem>

#include "backends/manifest/manifest_file.h"
#include "frontends/export/export_tables.h"
#include "frontends/export/target_export.h"

namespace moec {
namespace {

std::string common_folder(std::span<const ExportOptions> targets) {
  return std::filesystem::path(targets.front().out).parent_path().string();
}

Result<std::vector<TargetExport>> plan_targets(std::span<const ExportOptions> targets) {
  std::set<std::string> finite;
  std::vector<TargetExport> exports;
  for (const ExportOptions& options : targets) {
    MOEC_ASSIGN(PlannedExport planned, plan_export(options, targets.size(), finite));
    exports.emplace_back(options, std::move(planned));
  }
  return exports;
}

// An export for one target, with --force too, would stand between those for several, and these
// could not go on beside it.
Status check_not_common(const std::string& folder) {
  if (holds_export(folder)) return {};
  const std::vector<std::string> others = exports_in(folder);
  if (others.empty()) return {};
  return fail("export.out_not_empty",
              "the output folder holds the folders of other exports, one of them is " +
                  std::filesystem::path(others.front()).filename().string(),
              "choose another --out for one target", {.file = folder});
}

// The folder that several targets' folders lie in, locked as if it were that of a target alone. The
// exports for each of them are no part of an export for one.
Result<std::optional<FolderLock>> take_common_folder(std::span<const ExportOptions> targets) {
  if (targets.size() < 2) return std::nullopt;
  const std::string folder = common_folder(targets);
  MOEC_TRY(create_folder(folder));
  MOEC_ASSIGN(FolderLock lock, FolderLock::take(folder));
  if (holds_export(folder))
    return fail("export.out_not_empty", "the output folder holds an export for one target",
                "choose another --out for several targets", {.file = folder});
  return lock;
}

// Nothing in a folder is touched before all of them are known to be free.
Status take_folders(std::span<const ExportOptions> targets, std::vector<TargetExport>& exports) {
  for (TargetExport& target : exports) MOEC_TRY(target.lock_folder());
  if (targets.size() == 1) MOEC_TRY(check_not_common(targets.front().out));
  for (TargetExport& target : exports)
    for (const TargetExport& sibling : exports) MOEC_TRY(target.go_on_beside(sibling));
  for (const TargetExport& target : exports) MOEC_TRY(target.check_free());
  for (TargetExport& target : exports) MOEC_TRY(target.open_journal());
  return {};
}

Result<std::vector<ExportedParts>> export_parts(std::span<const ExportJob> jobs) {
  std::vector<ExportedParts> parts(jobs.size());
  MOEC_TRY(export_embeddings(jobs, parts));
  for (size_t target = 0; target < jobs.size(); ++target)
    if (jobs[target].plan.model.attention.rope.style != RopeStyle::none) {
      MOEC_ASSIGN(parts[target].rope, export_rope(jobs[target]));
    }
  MOEC_ASSIGN(auto shards, export_shards(jobs));
  for (size_t target = 0; target < jobs.size(); ++target)
    parts[target].shards = std::move(shards[target]);
  return parts;
}

Result<std::vector<ExportedParts>> export_parts(const std::vector<TargetExport>& exports,
                                                const ProgressCallback& progress) {
  uint64_t payload = 0;
  for (const TargetExport& target : exports) payload += target.payload_bytes();
  const PayloadCallback advance = [&](uint64_t bytes, const std::string& part) {
    if (progress) progress(bytes, payload, part);
  };
  advance(0, {});
  std::vector<ExportJob> jobs;
  for (const TargetExport& target : exports) jobs.push_back(target.job(advance));
  return export_parts(jobs);
}

// When all targets are finished, the journals go, that of the last one behind those that it keeps:
// as long as there is one, the same command goes on.
Status remove_journals(std::vector<TargetExport>& exports) {
  TargetExport& last = exports.back();
  const std::span others = std::span(exports).first(exports.size() - 1);
  for (const TargetExport& target : others) MOEC_TRY(last.keep_journal_of(target));
  for (TargetExport& target : others) {
    MOEC_TRY(target.remove_journal());
    MOEC_TRY(target.flush());
  }
  return last.remove_journal();
}

Result<std::vector<ExportSummary>> fill_folders(std::vector<TargetExport>& exports,
                                                const ProgressCallback& progress) {
  for (TargetExport& target : exports) MOEC_TRY(target.begin());
  MOEC_ASSIGN(std::vector<ExportedParts> parts, export_parts(exports, progress));
  for (size_t i = 0; i < exports.size(); ++i) MOEC_TRY(exports[i].finish(std::move(parts[i])));
  MOEC_TRY(remove_journals(exports));
  std::vector<ExportSummary> summaries;
  for (TargetExport& target : exports) summaries.push_back(target.take_summary());
  return summaries;
}

}  // namespace

Result<std::vector<ExportSummary>> export_targets(std::span<const ExportOptions> targets) {
  MOEC_ASSIGN(std::vector<TargetExport> exports, plan_targets(targets));
  MOEC_ASSIGN(const std::optional<FolderLock> lock, take_common_folder(targets));
  MOEC_TRY(take_folders(targets, exports));
  auto summaries = fill_folders(exports, targets.front().progress);
  if (!summaries)
    for (const TargetExport& target : exports) target.note_finished(summaries.error());
  return summaries;
}

Result<ExportSummary> export_model(const ExportOptions& options) {
  MOEC_ASSIGN(std::vector<ExportSummary> summaries, export_targets({&options, 1}));
  return std::move(summaries.front());
}

}  // namespace moec
