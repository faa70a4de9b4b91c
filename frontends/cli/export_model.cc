#include "frontends/cli/export_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"
#include "backends/manifest/manifest_file.h"
#include "frontends/cli/ane_book.h"
#include "frontends/cli/describe_export.h"
#include "frontends/cli/emit_shard.h"
#include "frontends/cli/export_tables.h"
#include "frontends/cli/open_source.h"
#include "frontends/cli/out_folder.h"
#include "frontends/cli/progress.h"
#include "frontends/cli/tokenizer.h"
#include "models/build_shard.h"
#include "models/fit_target.h"
#include "models/plan_model.h"

namespace moec {
namespace {

constexpr int64_t kDefaultContext = 2048;
constexpr const char* kReportFile = "report.json";

struct Job {
  const ExportOptions& options;
  const Plan& plan;
  const OutNames& names;
  const WeightReader& reader;
  Progress& progress;
};

// What one shard's export leaves behind.
struct Done {
  manifest::Shard shard;
  std::vector<PassReport> passes;
  Diagnostics notes;
  uint64_t bytes_read = 0;
};

Result<Plan> make_plan(const ExportOptions& options, Diagnostics& notes) {
  MOEC_ASSIGN(Checkpoint checkpoint, options.weight_seed
                                         ? open_config_only(options.source, options.family_file)
                                         : open_source(options.source, options.family_file));
  notes = std::move(checkpoint.warnings);
  BuildOptions build = options.build;
  if (build.context == 0)
    build.context = std::min(checkpoint.config.max_positions, kDefaultContext);
  MOEC_TRY(fit_to_target(checkpoint.config, options.passes.target, build));
  MOEC_ASSIGN(Plan plan, plan_model(std::move(checkpoint.config), std::move(checkpoint.weights),
                                    std::move(build)));
  plan.weight_seed = options.weight_seed;
  return plan;
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

void note_overflows(const ShardDecl& decl, const EmitReport& emitted, Diagnostics& notes) {
  for (const EmittedTensor& tensor : emitted.tensors)
    if (tensor.overflows > 0)
      notes.push_back({Severity::warning,
                       "export.cast_overflow",
                       fmt::format("{} values became infinite in f16", tensor.overflows),
                       "export with --dtype f32 to keep them",
                       {.shard = decl.name, .tensor = tensor.name}});
}

Result<Done> export_shard(const Job& job, size_t index) {
  const ShardDecl& decl = job.plan.shards[index];
  const bool range = job.options.coreml.packaging == WidthPackaging::range;
  MOEC_ASSIGN(CompiledShard compiled, (range ? compile_for_range : compile_shard)(
                                          job.plan, index, job.options.passes, job.options.run));
  std::vector<ShardWidth> widths;
  for (size_t i = 0; i < compiled.widths.size(); ++i)
    widths.push_back({job.plan.build.tokens[i], &compiled.widths[i]});
  EmitOptions emit;
  emit.folder = job.options.out;
  emit.stem = job.names.stem_prefix + decl.stem;
  emit.family = job.plan.model.family;
  emit.on_progress = [&](uint64_t bytes) { job.progress.advance(bytes, decl.name); };
  MOEC_ASSIGN(EmitReport emitted, emit_shard(job.options.passes.target.format, widths, job.reader,
                                             emit, job.options.coreml));
  Done done;
  done.shard = describe_shard(job.plan, index, compiled, emitted, job.options.passes.target);
  done.passes = std::move(compiled.passes);
  done.notes = std::move(compiled.notes);
  done.bytes_read = emitted.bytes_read;
  note_overflows(decl, emitted, done.notes);
  return done;
}

// Workers take the next shard until there is none left or one has failed. Shards before a failing
// one are finished, so the error that is reported is the first in plan order for any number of
// workers.
Result<std::vector<Done>> export_shards(const Job& job) {
  const size_t count = job.plan.shards.size();
  std::vector<std::optional<Result<Done>>> results(count);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    while (!failed) {
      const size_t i = next++;
      if (i >= count) return;
      results[i] = export_shard(job, i);
      if (!*results[i]) failed = true;
    }
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < job.options.jobs; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  std::vector<Done> done;
  for (auto& result : results) {
    if (!result) continue;  // not started: a later result holds the error
    if (!*result) return fail(std::move(result->error()));
    done.push_back(std::move(**result));
  }
  return done;
}

// report.json: what the passes did to each shard and what they had to say. No times: the same input
// gives the same bytes.
Status write_report(const ExportOptions& options, const std::vector<Done>& shards) {
  auto report = nlohmann::ordered_json::array();
  for (const Done& done : shards) {
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
  const std::string text = nlohmann::ordered_json{{"shards", report}}.dump(1) + "\n";
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

Status refuse_source_as_out(const ExportOptions& options) {
  std::error_code error;
  if (std::filesystem::equivalent(options.source, options.out, error))
    return fail("export.out_is_source", "the output folder is the checkpoint's own folder",
                "choose another --out", {.file = options.out});
  return {};
}

}  // namespace

Result<ExportSummary> export_model(const ExportOptions& options) {
  ExportSummary summary;
  MOEC_TRY(refuse_source_as_out(options));
  MOEC_ASSIGN(const Plan plan, make_plan(options, summary.notes));
  MOEC_ASSIGN(const ReaderOptions reading, export_reader(options.memory_bytes, options.jobs));
  MOEC_ASSIGN(const WeightReader reader,
              WeightReader::open(plan.weight_seed ? WeightTable() : plan.weights, reading));
  MOEC_ASSIGN(const uint64_t payload, check_plan(plan, reader, summary.notes));
  note_packaging(options, summary.notes);
  Manifest& manifest = summary.manifest = describe_plan(plan, options.passes);
  const OutNames names = options.ane_book ? ane_book_names(options.source) : OutNames();
  if (options.ane_book)
    MOEC_TRY(check_ane_book(plan, manifest.build, has_one_package_a_shard(options)));
  MOEC_ASSIGN(manifest.model.config_digest, digest_file(config_path(options.source)));
  MOEC_ASSIGN(manifest.tokenizer, detect_tokenizer(options.source));
  MOEC_TRY(prepare_folder(options.out, names, options.force));
  StreamReport table_report;
  MOEC_ASSIGN(manifest.embedding,
              write_embedding(plan, reader, options.out, names.embedding, table_report));
  if (plan.model.attention.rope.style != RopeStyle::none) {
    MOEC_ASSIGN(manifest.rope, write_rope(plan, options.out, names.rope));
  }
  Progress progress("export", payload, options.quiet);
  auto done = export_shards({options, plan, names, reader, progress});
  progress.finish();
  if (!done) return fail(std::move(done.error()));
  MOEC_TRY(write_report(options, *done));
  summary.bytes_read = table_report.bytes_read;
  summary.file_bytes = static_cast<uint64_t>(manifest.embedding.file.bytes);
  for (Done& shard : *done) {
    summary.bytes_read += shard.bytes_read;
    summary.notes.insert(summary.notes.end(), shard.notes.begin(), shard.notes.end());
    summary.weight_bytes += static_cast<uint64_t>(shard.shard.weight_bytes);
    summary.file_bytes += file_bytes(shard.shard);
    manifest.shards.push_back(std::move(shard.shard));
  }
  if (options.ane_book)
    MOEC_TRY(write_runtime_meta(manifest, config_path(options.source), options.out, names, plan));
  MOEC_TRY(write_manifest(manifest, options.out));
  return summary;
}

}  // namespace moec
