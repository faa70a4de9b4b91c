#include "frontends/export/target_export.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/files/sync_tree.h"
#include "backends/manifest/manifest_file.h"
#include "backends/manifest/written_file.h"
#include "backends/output/carried_files.h"
#include "backends/runtime/bioes_tags.h"
#include "backends/runtime/text_windows.h"
#include "frontends/export/ane_book.h"
#include "frontends/formats/format.h"
#include "frontends/hf/open_source.h"
#include "ir/base/json_output.h"

namespace moec {
namespace {

constexpr const char* kReportFile = "report.json";

nlohmann::ordered_json cuts_json(const std::vector<ShardCut>& cuts) {
  auto list = nlohmann::ordered_json::array();
  for (const ShardCut& cut : cuts)
    list.push_back({{"kind", enum_name(cut.kind)}, {"parts", cut.parts}, {"reason", cut.reason}});
  return list;
}

nlohmann::ordered_json shard_json(const ExportedShard& done) {
  auto passes = nlohmann::ordered_json::array();
  for (const PassReport& pass : done.passes)
    passes.push_back({{"pass", pass.pass},
                      {"changed", pass.changed},
                      {"ops_before", pass.ops_before},
                      {"ops_after", pass.ops_after}});
  auto notes = nlohmann::ordered_json::array();
  for (const Diagnostic& note : done.notes) notes.push_back(render(note));
  return {{"shard", done.shard.name}, {"passes", passes}, {"notes", notes}};
}

uint64_t file_bytes(const manifest::Shard& shard) {
  int64_t bytes = 0;
  for (const manifest::FileRef& data : shard.data) bytes += data.bytes;
  for (const manifest::Width& width : shard.widths) bytes += width.file.bytes;
  return static_cast<uint64_t>(bytes);
}

// What keeps `moec run` from finding spans.
void note_tagging(const Manifest& manifest, Diagnostics& notes) {
  if (!manifest.tagging) return;
  if (const auto warning = warn_of_width(manifest)) notes.push_back(*warning);
  if (auto tags = parse_tags(*manifest.tagging); !tags)
    for (Diagnostic& finding : tags.error()) {
      finding.severity = Severity::warning;
      notes.push_back(std::move(finding));
    }
}

}  // namespace

Status TargetExport::lock_folder() {
  MOEC_TRY(create_folder(options_.out));
  MOEC_ASSIGN(FolderLock lock, FolderLock::take(options_.out));
  lock_.emplace(std::move(lock));
  if (options_.force || !has_journal(options_.out)) return {};
  MOEC_ASSIGN(earlier_, read_journal(options_.out));
  return {};
}

Status TargetExport::go_on_beside(const TargetExport& sibling) {
  if (options_.force || earlier_ || !sibling.earlier_) return {};
  const FinishedTarget* found = find_finished(sibling.earlier_->finished, options_.out);
  if (!found) return {};
  MOEC_ASSIGN(earlier_, parse_journal(found->journal, sibling.options_.out));
  return {};
}

Status TargetExport::check_free() const {
  if (options_.force || earlier_) return {};
  MOEC_ASSIGN(const bool occupied, holds_files(options_.out));
  if (!occupied) return {};
  return fail("export.out_not_empty", "the output folder is not empty",
              "choose another --out, or give --force to replace an earlier export in it",
              {.file = options_.out});
}

Status TargetExport::open_journal() {
  MOEC_ASSIGN(Journal journal, earlier_ ? Journal::resume(options_.out, planned_.facts, *earlier_)
                                        : Journal::begin(options_.out, planned_.facts));
  journal_ = std::make_unique<Journal>(std::move(journal));
  earlier_.reset();
  return {};
}

Status TargetExport::begin() {
  MOEC_TRY(remove_exports(options_.out, planned_.names, shard_suffixes(), journal_->files()));
  MOEC_ASSIGN(planned_.manifest.carried,
              carry_files(source_folder(options_.source), options_.out, options_.sha256));
  return {};
}

ExportJob TargetExport::job(const PayloadCallback& advance) const {
  return {options_, planned_.plan, planned_.names, planned_.reader, *journal_, advance};
}

void TargetExport::note_finished(Diagnostics& failure) const {
  if (!has_journal(options_.out)) return;  // the folder has vanished, and all in it
  const Plan& plan = planned_.plan;
  const size_t tables = plan.model.attention.rope.style == RopeStyle::none ? 1 : 2;
  failure.push_back({Severity::note,
                     "export.unfinished",
                     fmt::format("{} of {} tables and shards are finished and stay",
                                 journal_->whole(), tables + plan.shards.size()),
                     "the same command goes on from there",
                     {.file = options_.out}});
}

// report.json: how far the model was cut and why, what the passes did to each shard and what they
// had to say. No times: the same input gives the same bytes.
Result<manifest::FileRef> TargetExport::write_report(
    const std::vector<ExportedShard>& shards) const {
  auto report = nlohmann::ordered_json::array();
  for (const ExportedShard& done : shards) report.push_back(shard_json(done));
  const nlohmann::ordered_json whole = {{"cuts", cuts_json(planned_.cuts)}, {"shards", report}};
  return manifest::write_listed_file(options_.out, kReportFile, json_text(whole, 1) + "\n",
                                     options_.sha256);
}

void TargetExport::summarize(ExportedParts parts) {
  summary_.manifest = std::move(planned_.manifest);
  summary_.notes = std::move(planned_.notes);
  summary_.parts_kept = journal_->kept();
  summary_.bytes_read = parts.table_bytes_read;
  summary_.file_bytes = static_cast<uint64_t>(parts.embedding.file.bytes);
  summary_.manifest.embedding = std::move(parts.embedding);
  summary_.manifest.rope = std::move(parts.rope);
  for (ExportedShard& shard : parts.shards) {
    summary_.bytes_read += shard.bytes_read;
    summary_.notes.insert(summary_.notes.end(), shard.notes.begin(), shard.notes.end());
    summary_.weight_bytes += static_cast<uint64_t>(shard.shard.weight_bytes);
    summary_.file_bytes += file_bytes(shard.shard);
    summary_.manifest.shards.push_back(std::move(shard.shard));
  }
  note_tagging(summary_.manifest, summary_.notes);
}

Status TargetExport::finish(ExportedParts parts) {
  MOEC_ASSIGN(manifest::FileRef report, write_report(parts.shards));
  summarize(std::move(parts));
  Manifest& manifest = summary_.manifest;
  manifest.side_files.push_back(std::move(report));
  if (options_.ane_book) {
    MOEC_ASSIGN(manifest.side_files.emplace_back(),
                write_runtime_meta(manifest, options_, planned_.names, planned_.plan));
  }
  MOEC_TRY(journal_->check_present());
  MOEC_TRY(write_manifest(manifest, options_.out));
  return flush();
}

Status TargetExport::flush() const { return sync_folder(options_.out); }

Status TargetExport::keep_journal_of(const TargetExport& sibling) {
  MOEC_ASSIGN(const FinishedTarget finished, describe_finished(sibling.options_.out));
  return journal_->add(finished);
}

Status TargetExport::remove_journal() { return journal_->remove(); }

}  // namespace moec
