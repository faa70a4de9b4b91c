#include "frontends/export/export_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "backends/files/digest.h"
#include "backends/runtime/calibration.h"
#include "backends/runtime/tokenizer.h"
#include "frontends/export/ane_book.h"
#include "frontends/export/compile_shard.h"
#include "frontends/export/describe_export.h"
#include "frontends/export/export_compile.h"
#include "frontends/export/export_facts.h"
#include "frontends/hf/open_source.h"
#include "models/build/build_shard.h"
#include "models/plan/make_plan.h"
#include "models/plan/measure_plan.h"
#include "models/tensors/rope.h"

namespace moec {
namespace {

Result<Plan> plan_source(const ExportOptions& options, std::vector<ShardCut>& cuts,
                         Diagnostics& notes) {
  MOEC_ASSIGN(Checkpoint checkpoint, options.weight_seed
                                         ? open_config_only(options.source, options.family_file)
                                         : open_source(options.source, options.family_file));
  notes = std::move(checkpoint.warnings);
  MOEC_ASSIGN(
      MadePlan made,
      make_plan(std::move(checkpoint.config), std::move(checkpoint.weights), options.passes.target,
                {options.build, options.cuts, options.kv, options.mla, options.layers}));
  cuts = std::move(made.cuts);
  made.plan.weight_seed = options.weight_seed;
  return std::move(made.plan);
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
  MOEC_ASSIGN(const MeasuredPlan measured,
              measure_plan(plan, options.cuts, options.devices, [&](size_t index) {
                return compiled_peak(plan, index, options.passes, options.run);
              }));
  const DevicePlan& devices = *measured.devices;
  for (size_t d = 0; d < devices.devices.size(); ++d) {
    assigned.push_back({devices.devices[d].name, devices.devices[d].bytes, {}});
    for (const std::string& name : devices.shards_of(d)) assigned.back().shards.push_back({name});
  }
  return assigned;
}

// Everything that can be found wrong before the first byte is written. Returns the payload bytes
// that the shards will hold.
Result<uint64_t> check_plan(const Plan& plan, const WeightReader& reader,
                            std::set<std::string>& finite, Diagnostics& notes) {
  std::vector<ShardInterface> interfaces;
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    MOEC_ASSIGN(Shard shard, build_shard(plan, i, plan.build.tokens.front()));
    if (!plan.weight_seed) MOEC_TRY(check_finite_weights(shard, reader, finite));
    interfaces.push_back(interface_of(shard));
    bytes += static_cast<uint64_t>(weight_bytes(shard));
  }
  Diagnostics findings = verify_plan(plan, interfaces);
  if (has_error(findings)) return fail(std::move(findings));
  notes.insert(notes.end(), findings.begin(), findings.end());
  return bytes;
}

bool has_one_package_a_shard(const ExportOptions& options) {
  return options.build.tokens.size() == 1 || options.coreml.packaging == WidthPackaging::range;
}

// What the user should know of the chosen packaging, once for all shards.
void note_packaging(const ExportOptions& options, Diagnostics& notes) {
  if (options.coreml.packaging != WidthPackaging::range) return;
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

// The manifest as far as the plan, the text files of the checkpoint and the flags tell it.
Result<Manifest> begin_manifest(const ExportOptions& options, const Plan& plan) {
  Manifest manifest = describe_plan(plan, options.passes);
  MOEC_ASSIGN(manifest.devices, assign_shards(options, plan));
  if (options.ane_book)
    MOEC_TRY(check_ane_book(plan, manifest.build, has_one_package_a_shard(options)));
  MOEC_ASSIGN(manifest.model.config_digest, digest_file(config_path(options.source)));
  MOEC_ASSIGN(manifest.tokenizer, detect_tokenizer(source_folder(options.source)));
  if (manifest.tagging)
    MOEC_TRY(read_calibration(source_folder(options.source), *manifest.tagging));
  return manifest;
}

// What is remembered of each tensor, and of each shard until the manifest is written: seen of
// Kimi-K2's plan, and of 7,800 shards for Core ML against 3,100.
constexpr uint64_t kTensorBytes = uint64_t{1} << 10;
constexpr uint64_t kShardBytes = uint64_t{32} << 10;
constexpr uint64_t kUsualBytes = uint64_t{8} << 20;  // which export_reader() counts in any case

// Other targets have about as many shards.
Result<WeightReader> open_reader(const ExportOptions& options, const Plan& plan, size_t targets) {
  const uint64_t plan_bytes =
      targets * (plan.weights.tensors.size() * kTensorBytes + plan.shards.size() * kShardBytes);
  MOEC_ASSIGN(const ReaderOptions reading,
              export_reader(options.memory_bytes, options.jobs * static_cast<int>(targets),
                            plan_bytes - std::min(plan_bytes, kUsualBytes)));
  return WeightReader::open(plan.weight_seed ? WeightTable() : plan.weights, reading);
}

}  // namespace

Result<PlannedExport> plan_export(const ExportOptions& options, size_t targets,
                                  std::set<std::string>& finite) {
  MOEC_TRY(refuse_source_as_out(options));
  std::vector<ShardCut> cuts;
  Diagnostics notes;
  MOEC_ASSIGN(Plan plan, plan_source(options, cuts, notes));
  MOEC_ASSIGN(WeightReader reader, open_reader(options, plan, targets));
  MOEC_ASSIGN(const uint64_t payload, check_plan(plan, reader, finite, notes));
  MOEC_TRY(try_each_kind(plan, options));
  note_packaging(options, notes);
  note_rotation(plan, notes);
  MOEC_ASSIGN(Manifest manifest, begin_manifest(options, plan));
  MOEC_ASSIGN(ExportFacts facts, export_facts(options, plan));
  return PlannedExport{
      std::move(plan),     std::move(cuts),
      std::move(reader),   options.ane_book ? ane_book_names(options.source) : OutNames(),
      std::move(manifest), payload,
      std::move(facts),    std::move(notes)};
}

}  // namespace moec
