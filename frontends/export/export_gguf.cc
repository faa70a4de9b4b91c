#include "frontends/export/export_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/files/digest.h"
#include "backends/files/sync_tree.h"
#include "backends/manifest/manifest_file.h"
#include "backends/manifest/written_file.h"
#include "backends/output/carried_files.h"
#include "backends/output/files_in_place.h"
#include "backends/output/part_journals.h"
#include "frontends/compile/describe_export.h"
#include "frontends/compile/weight_values.h"
#include "frontends/export/export_inputs.h"
#include "frontends/export/gguf/plan_gguf_model.h"
#include "frontends/export/open_folder.h"
#include "frontends/export/parallel_targets.h"
#include "frontends/export/plan_memory.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/open_source.h"
#include "ir/base/name_file.h"
#include "ir/base/refusals.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

struct GgufExport {
  const ExportOptions& options;
  GgufPlan plan;
  WeightReader reader;
  int workers = 1;

  uint64_t payload_bytes() const {
    uint64_t bytes = 0;
    for (const GgufPart& part : plan.parts)
      for (const uint64_t tensor : part.layout.bytes) bytes += tensor;
    return bytes;
  }
};

// ---- Planning ----------------------------------------------------------------------------------

GgufRequest request_of(const ExportOptions& options) {
  const BuildOptions& build = options.compile.build;
  return {options.source.path, options.source.family, build.dtype, build.weights,
          options.output.gguf};
}

Status check_out(const ExportOptions& options) {
  std::error_code error;
  namespace fs = std::filesystem;
  const fs::path source = options.source.path;
  const fs::path folder = fs::is_directory(source, error) ? source : source.parent_path();
  // equivalent() returns false if the output folder is missing; its error is ignored.
  if (fs::equivalent(folder.empty() ? "." : folder, options.output.folder, error))
    return fail("export.out_is_source", "the output folder is the checkpoint's own folder",
                "choose another --out", {.file = options.output.folder});
  return {};
}

Result<GgufExport> plan_export(const ExportOptions& options) {
  MOEC_TRY(check_out(options));
  // PlanMemory measures the growth since its construction, so it precedes the plan.
  const PlanMemory planned;
  MOEC_ASSIGN(GgufPlan plan, plan_gguf_model(request_of(options)));
  MOEC_ASSIGN(WeightReader reader, WeightReader::open(plan.weights));
  // Memory that planning freed must not count as held.
  return_free_memory();
  const ExportResources& resources = options.resources;
  const uint64_t held = beyond_usual(planned.held());
  const int wanted =
      resources.jobs > 0 ? resources.jobs : default_jobs(resources.memory_bytes, 1, held, 0);
  // Each part is written by one thread, so further threads would have no work.
  const int workers = std::min(wanted, static_cast<int>(plan.parts.size()));
  MOEC_ASSIGN(const ReaderOptions reading, export_reader(resources.memory_bytes, workers, held, 0));
  MOEC_TRY(check_plan_bytes(resources.memory_bytes, beyond_usual(planned.peak())));
  return GgufExport{options, std::move(plan), std::move(reader).with_options(reading), workers};
}

// Everything that the exported bytes depend on.
Result<ExportInputs> inputs_of(const GgufExport& job) {
  // Listed here, because the rows of --max-file-size and --tokenizer have no `recorded`.
  const ExportOptions& options = job.options;
  const OutputOptions& output = options.output;
  ExportInputs inputs = {{"moec", MOEC_VERSION}};
  inputs["option --target"] = options.compile.passes.target.name;
  inputs["option --dtype"] = dtype_name(options.compile.build.dtype);
  inputs["option --weights"] = to_string(options.compile.build.weights);
  inputs["option --max-file-size"] = std::to_string(output.gguf.max_file_bytes);
  inputs["option --tokenizer"] = output.gguf.tokenizer ? "the checkpoint's" : "none";
  inputs["option --digest"] = output.sha256 ? "sha256" : "none";
  inputs["name of the files"] = gguf_base_name(options.source.path);
  for (const std::string& name : carried_names({source_folder(options.source.path), {}})) {
    MOEC_ASSIGN(inputs["file " + name],
                digest_file(source_folder(options.source.path) + "/" + name));
  }
  if (options.source.family.file) {
    MOEC_ASSIGN(inputs["file of --family-file"], digest_file(*options.source.family.file));
  }
  for (const std::string& key : options.source.family.ignored_keys)
    inputs["option --ignore-key " + key] = "given";
  MOEC_TRY(add_source_files(options.source, job.plan.model, job.plan.weights, inputs));
  return inputs;
}

OutFiles files_of(const GgufPlan& plan) {
  OutFiles files = {std::string(kManifestJson), std::string(kManifestBin), kReportFile};
  for (const GgufPart& part : plan.parts) files.insert(part.name);
  return files;
}

// ---- Writing -----------------------------------------------------------------------------------

class GgufWriter {
 public:
  GgufWriter(const GgufExport& job, Journal& journal)
      : job_(job),
        journal_(journal),
        payload_(job.payload_bytes()),
        results_(job.plan.parts.size()) {}

  // Returns the reports of all files, or the error of the first file that failed.
  Result<std::vector<EmitReport>> run() {
    advance(0, {});
    ThreadGroup threads;
    for (int i = 1; i < job_.workers; ++i)
      // If start() fails, the running threads and this one write the remaining parts.
      if (!threads.start([this] { work(); })) break;
    work();
    threads.join();
    std::vector<EmitReport> reports;
    // Searched in part order, so the reported error does not depend on the timing of threads.
    for (auto& result : results_) {
      if (result && !*result) return fail(std::move(result->error()));
      if (result) reports.push_back(std::move(**result));
    }
    return reports;
  }

 private:
  void advance(uint64_t bytes, const std::string& part) const {
    if (job_.options.callbacks.progress) job_.options.callbacks.progress(bytes, payload_, part);
  }

  void work() {
    // A thread finishes each part that it fetched, so every part before a failing one has a result.
    while (!failed_) {
      const size_t i = next_++;
      if (i >= results_.size()) return;
      results_[i] = catch_refusals([&] { return write_or_keep(i); });
      if (!*results_[i]) failed_ = true;
    }
  }

  Status check_not_stopped() const {
    const ExportOptions& options = job_.options;
    if (options.callbacks.stop && options.callbacks.stop())
      return fail(kExportInterrupted, "the export was stopped", {},
                  {.file = options.output.folder});
    return journal_.check_present();
  }

  Result<EmitReport> write_or_keep(size_t index) {
    MOEC_TRY(check_not_stopped());
    const GgufPart& part = job_.plan.parts[index];
    const EmitReport* kept = journal_.find_complete(part.name);
    // An earlier run may have allowed values that this one refuses.
    if (kept == nullptr || holds_refused_values(*kept, job_.options.values)) return write(index);
    advance(kept->weight_bytes, part.name);
    return *kept;
  }

  Result<EmitReport> write(size_t index) {
    const GgufPart& part = job_.plan.parts[index];
    EmitOptions emit;
    emit.folder = job_.options.output.folder;
    emit.sha256 = job_.options.output.sha256;
    emit.on_progress = [&](uint64_t bytes) {
      advance(bytes, part.name);
      return check_not_stopped();
    };
    WrittenValues values(job_.options.values, part.name);
    emit.on_written = [&](const WeightView& view, const EmittedTensor& written) {
      return values.take(view, written);
    };
    auto emitted = emit_gguf(part, job_.plan.payloads[index], job_.reader, emit);
    if (!emitted) return fail(values.explain(std::move(emitted.error()), job_.reader));
    // A stream checks its files only at its start. A part must not enter the journal if a file
    // changed during the stream.
    MOEC_TRY(job_.reader.check_unchanged());
    MOEC_TRY(journal_.add({part.name, *emitted}));
    return emitted;
  }

  const GgufExport& job_;
  Journal& journal_;
  uint64_t payload_;
  std::vector<std::optional<Result<EmitReport>>> results_;  // by part; empty: not started
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
};

// ---- Report and manifest -----------------------------------------------------------------------

ordered_json part_json(const GgufPart& part) {
  auto tensors = ordered_json::array();
  for (size_t i = 0; i < part.layout.tensors.size(); ++i) {
    const GgufTensorInfo& tensor = part.layout.tensors[i];
    tensors.push_back({{"name", tensor.name},
                       {"type", enum_name(tensor.type)},
                       {"dims", to_string(tensor.dims)},
                       {"bytes", part.layout.bytes[i]}});
  }
  return {{"file", part.name}, {"bytes", part.layout.file_bytes}, {"tensors", tensors}};
}

// Writes report.json. Equal inputs give equal bytes.
Result<manifest::FileRef> write_gguf_report(const GgufExport& job) {
  auto fallbacks = ordered_json::array();
  for (const GgufFallback& fallback : job.plan.fallbacks)
    fallbacks.push_back({{"tensor", fallback.tensor},
                         {"wanted", enum_name(fallback.wanted)},
                         {"stored", enum_name(fallback.stored)}});
  auto files = ordered_json::array();
  for (const GgufPart& part : job.plan.parts) files.push_back(part_json(part));
  const ordered_json whole = {{"weights", to_string(job.options.compile.build.weights)},
                              {"fallbacks", fallbacks},
                              {"files", files}};
  const OutputOptions& output = job.options.output;
  return manifest::write_listed_file(output.folder, kReportFile, json_text(whole, 1) + "\n",
                                     output.sha256);
}

Result<Manifest> describe(const GgufExport& job, const std::vector<EmitReport>& reports,
                          Diagnostics& notes) {
  const ExportOptions& options = job.options;
  const std::string& source = options.source.path;
  Manifest manifest;
  manifest.tool = {"moec", MOEC_VERSION};
  manifest.model = describe_model(job.plan.model);
  // A GGUF source has no config.json.
  if (!names_gguf(source)) {
    MOEC_ASSIGN(manifest.model.config_digest, digest_file(config_path(source)));
  }
  MOEC_ASSIGN(manifest.model.eos_tokens, source_eos_tokens(source, manifest.model.vocab, notes));
  manifest::Build& build = manifest.build;
  build.target = options.compile.passes.target.name;
  build.format = options.compile.passes.target.format;
  build.dtype = options.compile.build.dtype;
  build.weights = to_string(options.compile.build.weights);
  // The manifest requires these fields, which describe graphs. Files without graphs get neutral
  // values.
  build.tokens = {1};
  build.context = manifest.model.max_positions;
  build.routing = enum_name(RoutingForm::rank);
  build.experts = enum_name(ExpertForm::unrolled);
  build.exact = true;
  manifest.masked_value = masked_score(build.dtype);
  for (const EmitReport& report : reports)
    for (const EmittedFile& file : report.data)
      manifest.side_files.push_back(
          {file.path, static_cast<int64_t>(file.bytes), file.digest, file.sha256});
  return manifest;
}

// Adds warnings about values that are not finite. The user allowed all of these values; otherwise,
// WrittenValues would have failed the export.
void note_values(const GgufExport& job, const std::vector<EmitReport>& reports,
                 Diagnostics& notes) {
  for (const EmitReport& report : reports)
    for (const EmittedTensor& tensor : report.tensors)
      for (Diagnostic& finding :
           judge_values(tensor, job.options.compile.build.dtype, job.options.values,
                        {.shard = report.data.front().path, .tensor = tensor.name}))
        notes.push_back(std::move(finding));
}

Result<ExportSummary> finish(const GgufExport& job, const std::vector<EmitReport>& reports,
                             OpenFolder& folder) {
  ExportSummary summary;
  summary.notes = job.plan.notes;
  MOEC_ASSIGN(summary.manifest, describe(job, reports, summary.notes));
  note_values(job, reports, summary.notes);
  MOEC_ASSIGN(manifest::FileRef report, write_gguf_report(job));
  summary.manifest.side_files.push_back(std::move(report));
  for (const EmitReport& emitted : reports) {
    summary.bytes_read += emitted.bytes_read;
    summary.weight_bytes += emitted.weight_bytes;
    for (const EmittedFile& file : emitted.data) summary.file_bytes += file.bytes;
  }
  summary.parts_kept = folder.journal.kept();
  // If the folder was removed and created again, the manifest would name missing files.
  MOEC_TRY(folder.journal.check_present());
  MOEC_TRY(check_files_in_place(summary.manifest, folder.path));
  MOEC_TRY(write_manifest(summary.manifest, folder.path));
  // A power loss must not undo the rename of manifest.json after the journal is removed.
  MOEC_TRY(sync_folder(folder.path));
  MOEC_TRY(folder.journal.remove());
  return summary;
}

Result<ExportSummary> write_folder(const GgufExport& job, OpenFolder& folder) {
  MOEC_TRY(remove_files(folder.path, folder.journal.names(), folder.journal.files()));
  MOEC_TRY(remove_part_journals(folder.path));
  MOEC_ASSIGN(const std::vector<EmitReport> reports, GgufWriter(job, folder.journal).run());
  return finish(job, reports, folder);
}

}  // namespace

Result<ExportSummary> export_gguf(const ExportOptions& options) {
  MOEC_ASSIGN(const GgufExport job, plan_export(options));
  MOEC_ASSIGN(LockedFolder locked, LockedFolder::lock(options.output));
  // Checked after locking: an export for several targets needs the same lock to create its
  // subfolders, so none can appear later.
  MOEC_TRY(check_not_common(options.output.folder));
  MOEC_ASSIGN(const ExportInputs inputs, inputs_of(job));
  MOEC_TRY(locked.check_free(inputs));
  MOEC_TRY(locked.claim(files_of(job.plan)));
  MOEC_ASSIGN(const auto folder, std::move(locked).open(inputs, job.plan.parts.size()));
  auto summary = write_folder(job, *folder);
  if (!summary) folder->note_unfinished(summary.error());
  return summary;
}

}  // namespace moec
