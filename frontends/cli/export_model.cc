#include "frontends/cli/export_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"
#include "backends/manifest/manifest_file.h"
#include "frontends/cli/ane_book.h"
#include "frontends/cli/calibration.h"
#include "frontends/cli/carried_files.h"
#include "frontends/cli/compile_shard.h"
#include "frontends/cli/describe_export.h"
#include "frontends/cli/export_facts.h"
#include "frontends/cli/export_job.h"
#include "frontends/cli/export_tables.h"
#include "frontends/cli/folder_lock.h"
#include "frontends/cli/open_source.h"
#include "frontends/cli/plan_devices.h"
#include "frontends/cli/plan_output.h"
#include "frontends/cli/shard_flags.h"
#include "frontends/cli/tokenizer.h"
#include "models/build_shard.h"
#include "models/first_layers.h"
#include "models/plan_model.h"
#include "models/plan_report.h"
#include "models/rope.h"

namespace moec {
namespace {

constexpr const char* kReportFile = "report.json";

Result<Plan> make_plan(const ExportOptions& options, std::vector<ShardCut>& cuts,
                       Diagnostics& notes) {
  MOEC_ASSIGN(Checkpoint checkpoint, options.weight_seed
                                         ? open_config_only(options.source, options.family_file)
                                         : open_source(options.source, options.family_file));
  notes = std::move(checkpoint.warnings);
  if (options.layers > 0)
    MOEC_TRY(keep_first_layers(checkpoint.config, checkpoint.weights, options.layers));
  MOEC_TRY(check_kv_flag(options.kv, checkpoint.config));
  BuildOptions build = options.build;
  MOEC_ASSIGN(cuts, resolve_build(checkpoint.config, options.passes.target, options.cuts, build));
  MOEC_ASSIGN(Plan plan, plan_model(std::move(checkpoint.config), std::move(checkpoint.weights),
                                    std::move(build)));
  plan.weight_seed = options.weight_seed;
  return plan;
}

// Where shards go when there are several devices. Copies of experts are copies of their shards.
Result<std::vector<manifest::Device>> assign_shards(const ExportOptions& options,
                                                    const Plan& plan) {
  std::vector<manifest::Device> assigned;
  if (options.devices.devices.empty()) return assigned;
  if (!options.devices.loads.empty() && !plan.build.host_routing)
    return fail("plan.replicas",
                "the experts of a layer are in one shard; it is shards that have copies",
                "give --experts-per-shard, 1 for copies of single experts");
  MOEC_ASSIGN(const std::vector<ShardSize> sizes, measure_shards(plan, [&](size_t index) {
                return compiled_peak(plan, index, options.passes, options.run);
              }));
  const PlanReport report = report_plan(plan, sizes, options.cuts);
  MOEC_ASSIGN(const DevicePlan devices, plan_devices(plan, sizes, report, options.devices));
  for (size_t d = 0; d < devices.devices.size(); ++d) {
    assigned.push_back({devices.devices[d].name, devices.devices[d].bytes, {}});
    for (const std::string& name : devices.shards_of(d)) assigned.back().shards.push_back({name});
  }
  return assigned;
}

// Everything that can be found wrong before the first byte is written. Returns the payload bytes
// that the shards will hold.
Result<uint64_t> check_plan(const Plan& plan, const WeightReader& reader, Diagnostics& notes) {
  std::vector<ShardInterface> interfaces;
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    MOEC_ASSIGN(Shard shard, build_shard(plan, i, plan.build.tokens.front()));
    if (!plan.weight_seed) MOEC_TRY(check_finite_weights(shard, reader));
    interfaces.push_back(interface_of(shard));
    bytes += static_cast<uint64_t>(weight_bytes(shard));
  }
  Diagnostics findings = verify_plan(plan, interfaces);
  if (has_error(findings)) return fail(std::move(findings));
  notes.insert(notes.end(), findings.begin(), findings.end());
  return bytes;
}

// report.json: how far the model was cut and why, what the passes did to each shard and what they
// had to say. No times: the same input gives the same bytes.
Status write_report(const ExportOptions& options, const std::vector<ShardCut>& cuts,
                    const std::vector<ExportedShard>& shards) {
  auto report = nlohmann::ordered_json::array();
  for (const ExportedShard& done : shards) {
    auto passes = nlohmann::ordered_json::array();
    for (const PassReport& pass : done.passes)
      passes.push_back({{"pass", pass.pass},
                        {"changed", pass.changed},
                        {"ops_before", pass.ops_before},
                        {"ops_after", pass.ops_after}});
    auto notes = nlohmann::ordered_json::array();
    for (const Diagnostic& note : done.notes) notes.push_back(render(note));
    report.push_back({{"shard", done.shard.name}, {"passes", passes}, {"notes", notes}});
  }
  const nlohmann::ordered_json whole = {{"cuts", cuts_json(cuts)}, {"shards", report}};
  const std::string text = whole.dump(1) + "\n";
  return write_file(options.out + "/" + kReportFile, text);
}

uint64_t file_bytes(const manifest::Shard& shard) {
  int64_t bytes = 0;
  for (const manifest::FileRef& data : shard.data) bytes += data.bytes;
  for (const manifest::Width& width : shard.widths) bytes += width.file.bytes;
  return static_cast<uint64_t>(bytes);
}

bool has_one_package_a_shard(const ExportOptions& options) {
  return options.build.tokens.size() == 1 || options.coreml.packaging == WidthPackaging::range;
}

// What the user should know of the chosen packaging, once for all shards.
void note_packaging(const ExportOptions& options, Diagnostics& notes) {
  if (options.passes.target.format != ShardFormat::coreml ||
      options.coreml.packaging != WidthPackaging::range)
    return;
  notes.push_back(
      {Severity::warning,
       "export.range_widths",
       "Core ML compiles a range package anew for each width that it meets, which takes "
       "minutes on a device",
       "leave --widths out for a package of each width",
       {}});
}

// The reference turns from short to long factors when a text grows; shards have those of one
// length.
void note_rotation(const Plan& plan, Diagnostics& notes) {
  const RopeConfig& rope = plan.model.attention.rope;
  if (!has_long_factors(rope, plan.build.context)) return;
  notes.push_back(
      {Severity::note,
       "export.long_factors",
       fmt::format("the rotation has {}: texts that stay below are rotated by them too, "
                   "other than in the reference",
                   describe_factors(rope, plan.build.context)),
       fmt::format("export with --context {} for such texts", rope.original_max_positions),
       {}});
}

Status refuse_source_as_out(const ExportOptions& options) {
  std::error_code error;
  if (std::filesystem::equivalent(options.source, options.out, error))
    return fail("export.out_is_source", "the output folder is the checkpoint's own folder",
                "choose another --out", {.file = options.out});
  return {};
}

Result<Journal> open_journal(const ExportOptions& options, const ExportFacts& facts) {
  if (options.force) return Journal::begin(options.out, facts);
  if (has_journal(options.out)) return Journal::resume(options.out, facts);
  MOEC_ASSIGN(const bool occupied, holds_files(options.out));
  if (occupied)
    return fail("export.out_not_empty", "the output folder is not empty",
                "choose another --out, or give --force to replace an earlier export in it",
                {.file = options.out});
  return Journal::begin(options.out, facts);
}

// Tables and shards; the manifest is told of the tables.
Result<std::vector<ExportedShard>> export_parts(const ExportJob& job, ExportSummary& summary) {
  Manifest& manifest = summary.manifest;
  MOEC_ASSIGN(manifest.embedding, export_embedding(job, summary.bytes_read));
  if (job.plan.model.attention.rope.style != RopeStyle::none) {
    MOEC_ASSIGN(manifest.rope, export_rope(job));
  }
  auto shards = export_shards(job);
  job.progress.finish();
  return shards;
}

// What a failure leaves in the folder, for the user who wonders what is lost.
void note_finished(const ExportJob& job, Diagnostics& failure) {
  const size_t tables = job.plan.model.attention.rope.style == RopeStyle::none ? 1 : 2;
  failure.push_back({Severity::note,
                     "export.unfinished",
                     fmt::format("{} of {} tables and shards are finished and stay",
                                 job.journal.whole(), tables + job.plan.shards.size()),
                     "the same command goes on from there",
                     {.file = job.options.out}});
}

void summarize(std::vector<ExportedShard> shards, ExportSummary& summary) {
  summary.file_bytes = static_cast<uint64_t>(summary.manifest.embedding.file.bytes);
  for (ExportedShard& shard : shards) {
    summary.bytes_read += shard.bytes_read;
    summary.notes.insert(summary.notes.end(), shard.notes.begin(), shard.notes.end());
    summary.weight_bytes += static_cast<uint64_t>(shard.shard.weight_bytes);
    summary.file_bytes += file_bytes(shard.shard);
    summary.manifest.shards.push_back(std::move(shard.shard));
  }
}

}  // namespace

Result<ExportSummary> export_model(const ExportOptions& options) {
  ExportSummary summary;
  MOEC_TRY(refuse_source_as_out(options));
  std::vector<ShardCut> cuts;
  MOEC_ASSIGN(const Plan plan, make_plan(options, cuts, summary.notes));
  MOEC_ASSIGN(const ReaderOptions reading, export_reader(options.memory_bytes, options.jobs));
  MOEC_ASSIGN(const WeightReader reader,
              WeightReader::open(plan.weight_seed ? WeightTable() : plan.weights, reading));
  MOEC_ASSIGN(const uint64_t payload, check_plan(plan, reader, summary.notes));
  note_packaging(options, summary.notes);
  note_rotation(plan, summary.notes);
  Manifest& manifest = summary.manifest = describe_plan(plan, options.passes);
  MOEC_ASSIGN(manifest.devices, assign_shards(options, plan));
  const OutNames names = options.ane_book ? ane_book_names(options.source) : OutNames();
  if (options.ane_book)
    MOEC_TRY(check_ane_book(plan, manifest.build, has_one_package_a_shard(options)));
  MOEC_ASSIGN(manifest.model.config_digest, digest_file(config_path(options.source)));
  MOEC_ASSIGN(manifest.tokenizer, detect_tokenizer(source_folder(options.source)));
  if (manifest.tagging) MOEC_TRY(read_calibration(options.source, *manifest.tagging));
  MOEC_ASSIGN(const ExportFacts facts, export_facts(options, plan));
  MOEC_TRY(create_folder(options.out));
  MOEC_ASSIGN(const FolderLock lock, FolderLock::take(options.out));
  MOEC_ASSIGN(Journal journal, open_journal(options, facts));
  MOEC_TRY(remove_exports(options.out, names, journal.files()));
  MOEC_ASSIGN(manifest.carried,
              carry_files(source_folder(options.source), options.out, options.sha256));
  Progress progress("export", payload, options.quiet);
  const ExportJob job{options, plan, names, reader, journal, progress};
  auto shards = export_parts(job, summary);
  if (!shards) {
    note_finished(job, shards.error());
    return fail(std::move(shards.error()));
  }
  MOEC_TRY(write_report(options, cuts, *shards));
  summarize(std::move(*shards), summary);
  if (options.ane_book)
    MOEC_TRY(write_runtime_meta(manifest, config_path(options.source), options.out, names, plan));
  MOEC_TRY(journal.check_present());
  MOEC_TRY(write_manifest(manifest, options.out));
  sync_folder(options.out);
  MOEC_TRY(journal.remove());
  summary.parts_kept = journal.kept();
  return summary;
}

}  // namespace moec
