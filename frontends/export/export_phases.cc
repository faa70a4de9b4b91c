#include "frontends/export/export_phases.h"

#include <fmt/format.h>

#include <map>

#include "backends/files/sync_tree.h"
#include "backends/formats/format.h"
#include "backends/manifest/file_names.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/carried_files.h"
#include "backends/output/files_in_place.h"
#include "backends/output/out_folder.h"
#include "backends/output/part_journals.h"
#include "backends/runtime/text/text_windows.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/compile/shard_packages.h"
#include "frontends/export/ane_book.h"
#include "frontends/export/litertlm_export.h"
#include "frontends/export/options/export_options.h"
#include "frontends/export/pipeline_export.h"
#include "frontends/export/report.h"
#include "frontends/sources/open_source.h"
#include "ir/base/process_memory.h"
#include "ir/model/plan.h"

namespace moec {

namespace {

// Names of all files that an export may write: manifest, report, tables, the files of every shard,
// and the carried files that the checkpoint has.
// The list may include names that are not written in the end. A foreign file with such a name is
// refused nevertheless.
OutFiles files_to_write(const PlannedExport& planned) {
  const Plan& plan = planned.plan;
  const OutNames& names = planned.names;
  const CompileOptions& compile = planned.options.compile;
  OutFiles files = {std::string(kManifestJson), std::string(kManifestBin), kReportFile};
  for (std::string& name : names.top_level())
    if (name != names.rope || plan.model.attention.rope.style != RopeStyle::none)
      files.insert(std::move(name));
  for (std::string& name : carried_names(planned.carried)) files.insert(std::move(name));
  const Format& format = format_of(compile.passes.target.format);
  const FormatOptions choices{{}, compile.coreml};
  for (const ShardPackage& package : shard_packages(plan, compile))
    // A package of several shards has the same files for any of their graphs.
    for (std::string& name : format.file_names(names.stem_prefix + package.stem,
                                               graph_keys(plan, package.shards.front()), choices))
      files.insert(std::move(name));
  return files;
}

// Parts are the units that the journal lists: the embedding table, the rotary table if the model
// has one, and the shards.
// Counts those of this process.
size_t count_parts(const PlannedExport& planned) {
  size_t parts = 0;
  if (planned.options.output.has_tables())
    parts = planned.plan.model.attention.rope.style == RopeStyle::none ? 1 : 2;
  for (const ShardPackage& package : planned.packages) parts += package.shards.size();
  return parts;
}

// Sums the cost per token over all shards, for each top-k variant.
void add_costs(const std::vector<ExportedShard>& shards, manifest::TopK& top_k) {
  for (const ExportedShard& shard : shards)
    for (size_t i = 0; i < top_k.forms.size(); ++i) {
      // `costs` has an entry per variant, even if the shard's graph is the same in all variants.
      top_k.forms[i].bytes_active += shard.costs.at(i).bytes_active;
      top_k.forms[i].macs_active += shard.costs.at(i).macs_active;
    }
}

}  // namespace

Result<LockedExport> LockedExport::lock(PlannedExport planned) {
  OutputOptions& output = planned.options.output;
  MOEC_ASSIGN(LockedFolder folder, LockedFolder::lock(output));
  // For a share, the later phases write to the folder of the share.
  output.folder = folder.path();
  return LockedExport(std::move(planned), std::move(folder));
}

Status LockedExport::claim_files() { return folder_.claim(files_to_write(planned_)); }

Result<OpenExport> LockedExport::open() && {
  MOEC_ASSIGN(auto folder, std::move(folder_).open(planned_.inputs, count_parts(planned_)));
  return OpenExport(std::move(planned_), std::move(folder));
}

Result<std::vector<OpenExport>> open_exports(std::vector<LockedExport> exports) {
  // Separate loops: no folder changes before every folder has passed all checks. resume_from() has
  // no effect if both folders are the same: it requires a journal in exactly one of them.
  for (LockedExport& locked : exports)
    for (const LockedExport& sibling : exports)
      MOEC_TRY(locked.folder_.resume_from(sibling.folder_));
  for (const LockedExport& locked : exports)
    MOEC_TRY(locked.folder_.check_free(locked.planned_.inputs));
  for (LockedExport& locked : exports) MOEC_TRY(locked.claim_files());
  std::vector<OpenExport> open;
  for (LockedExport& locked : exports) {
    MOEC_ASSIGN(OpenExport next, std::move(locked).open());
    open.push_back(std::move(next));
  }
  return open;
}

Result<PreparedExport> OpenExport::prepare() && {
  const ExportOptions& options = planned_.options;
  const Journal& journal = folder_->journal;
  // Files of complete parts stay. Everything else that exports wrote is removed, so that no stale
  // file remains in a finished folder.
  MOEC_TRY(remove_files(folder_->path, journal.names(), journal.files()));
  // Without --join, they belong to an export that this one replaces.
  MOEC_TRY(options.output.join ? adopt_part_journals(folder_->path, folder_->journal)
                               : remove_part_journals(folder_->path));
  // The process that joins the shares copies these files.
  if (!options.output.share) {
    MOEC_ASSIGN(planned_.manifest.carried,
                carry_files(planned_.carried, folder_->path, options.output.sha256));
  }
  return PreparedExport(std::move(planned_), std::move(folder_));
}

ExportJob PreparedExport::job(const PayloadCallback& advance) const {
  return {planned_.options,           planned_.plan,    planned_.names,        planned_.reader,
          planned_.calibration.get(), planned_.encoder, folder_->journal,      advance,
          planned_.packages,          planned_.workers, planned_.decoder.get()};
}

ExportSummary PreparedExport::summarize(ExportedParts parts) {
  // Moves the manifest and the notes out of planned_, so finish() must not read them there.
  ExportSummary summary;
  summary.manifest = std::move(planned_.manifest);
  summary.notes = std::move(planned_.notes);
  summary.parts_kept = folder_->journal.kept();
  summary.bytes_read = parts.tables.bytes_read;
  for (const Diagnostics& notes :
       {note_fallbacks(planned_.calibration.get()), note_narrow_text(planned_.calibration.get())})
    summary.notes.insert(summary.notes.end(), notes.begin(), notes.end());
  summary.notes.insert(summary.notes.end(), parts.tables.notes.begin(), parts.tables.notes.end());
  summary.manifest.embedding = std::move(parts.tables.embedding);
  summary.manifest.rope = std::move(parts.tables.rope);
  if (summary.manifest.top_k) add_costs(parts.shards, *summary.manifest.top_k);
  for (ExportedShard& shard : parts.shards) {
    summary.bytes_read += shard.bytes_read;
    summary.notes.insert(summary.notes.end(), shard.notes.begin(), shard.notes.end());
    summary.weight_bytes += static_cast<uint64_t>(shard.shard.weight_bytes);
    summary.manifest.shards.push_back(std::move(shard.shard));
  }
  summary.file_bytes = bytes_on_disk(summary.manifest, planned_.options.output.folder);
  if (const auto warning = warn_of_width(summary.manifest)) summary.notes.push_back(*warning);
  return summary;
}

ExportSummary PreparedExport::end_share(ExportedParts parts) && {
  return summarize(std::move(parts));
}

Result<WrittenExport> PreparedExport::finish(ExportedParts parts) && {
  const OutputOptions& output = planned_.options.output;
  const ParameterCounts parameters = count_parameters(planned_.plan.model, planned_.plan.weights);
  const ReportFacts facts{parameters, planned_.plan.build.weights, planned_.calibration.get(),
                          planned_.cuts, parts.shards};
  // Written before the manifest, which lists the digest of the report.
  MOEC_ASSIGN(manifest::FileRef report, write_report(output.folder, facts, output.sha256));
  std::map<std::string, DecoderPart> decoder_parts;
  for (ExportedShard& shard : parts.shards)
    if (shard.decoder) decoder_parts.emplace(shard.shard.name, std::move(*shard.decoder));
  ExportSummary summary = summarize(std::move(parts));
  Manifest& manifest = summary.manifest;
  if (planned_.decoder) {
    MOEC_ASSIGN(auto files,
                planned_.decoder->write(manifest, std::move(decoder_parts), planned_.options));
    for (manifest::FileRef& file : files) manifest.side_files.push_back(std::move(file));
  }
  if (packs_litertlm(planned_.options.compile.passes.target)) {
    const PayloadCallback advance;  // the file has no shards
    MOEC_ASSIGN(manifest.side_files.emplace_back(), write_litertlm(manifest, job(advance)));
  }
  if (output.compat == Compat::genai) {
    MOEC_ASSIGN(auto files, write_pipeline(manifest, planned_.plan.model, planned_.options));
    for (manifest::FileRef& file : files) manifest.side_files.push_back(std::move(file));
  }
  manifest.side_files.push_back(std::move(report));
  if (output.compat == Compat::ane_book) {
    MOEC_ASSIGN(manifest.side_files.emplace_back(),
                write_runtime_meta(manifest, planned_.options, planned_.names, planned_.plan));
  }
  // If the folder was removed and recreated during the export, the manifest would name missing
  // files.
  MOEC_TRY(folder_->journal.check_present());
  MOEC_TRY(check_files_in_place(manifest, output.folder));
  // open_reader() does not add the memory of reading to the peak of writing the manifest. The
  // memory of reading is therefore returned first.
  return_free_memory();
  MOEC_TRY(write_manifest(manifest, output.folder));
  // A power loss must not undo the rename of manifest.json after the journal is removed.
  MOEC_TRY(sync_folder(output.folder));
  return WrittenExport(std::move(summary), std::move(folder_));
}

Status WrittenExport::keep_journal_of(const WrittenExport& sibling) {
  MOEC_ASSIGN(const FinishedTarget finished, describe_finished(sibling.folder_->path));
  return folder_->journal.add(finished);
}

Result<ExportSummary> WrittenExport::remove_journal() && {
  // Before the journal, so that the same command can remove the rest after an interruption.
  MOEC_TRY(remove_part_journals(folder_->path));
  MOEC_TRY(folder_->journal.remove());
  return std::move(summary_);
}

// Flushes each removal except the last to disk. Otherwise, a power loss could undo a removal after
// the last journal was removed, and the folder would look unfinished.
Result<std::vector<ExportSummary>> remove_journals(std::vector<WrittenExport> exports) {
  // The last journal gets all copies before the first removal, so each state can be resumed.
  for (size_t i = 0; i + 1 < exports.size(); ++i)
    MOEC_TRY(exports.back().keep_journal_of(exports[i]));
  std::vector<ExportSummary> summaries;
  for (size_t i = 0; i < exports.size(); ++i) {
    const std::string path = exports[i].path();
    MOEC_ASSIGN(ExportSummary summary, std::move(exports[i]).remove_journal());
    summaries.push_back(std::move(summary));
    if (i + 1 < exports.size()) MOEC_TRY(sync_folder(path));
  }
  return summaries;
}

}  // namespace moec
