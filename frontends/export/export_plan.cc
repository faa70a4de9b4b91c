#include "frontends/export/export_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "backends/files/digest.h"
#include "backends/output/carried_files.h"
#include "backends/runtime/text/span_tags.h"
#include "backends/runtime/text/tagger_biases.h"
#include "backends/tokenizer/byte_tokens.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/compile/ane_book_form.h"
#include "frontends/compile/auto_bits.h"
#include "frontends/compile/calibrated_inputs.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/compile/describe_export.h"
#include "frontends/compile/export_compile.h"
#include "frontends/compile/find_folds.h"
#include "frontends/compile/plan_top_k.h"
#include "frontends/compile/weight_values.h"
#include "frontends/export/ane_book.h"
#include "frontends/export/export_inputs.h"
#include "frontends/export/parallel_targets.h"
#include "frontends/export/plan_memory.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/open_source.h"
#include "ir/base/invariant.h"
#include "ir/base/name_file.h"
#include "models/cluster/measure_plan.h"
#include "models/plan/check_budgets.h"
#include "models/plan/make_plan.h"
#include "models/shards/build_shard.h"
#include "models/tensors/rope.h"

namespace moec {
namespace {

Result<Checkpoint> open_checkpoint(const SourceOptions& source) {
  return source.weight_seed ? open_config_only(source.path, source.family)
                            : open_source(source.path, source.family, equal_tensors);
}

// The mask of --expert-mask; layers that have all of their experts are left out.
Result<ExpertSets> mask_of(const CompileOptions& compile, const ModelConfig& model,
                           const std::vector<TopKForm>& forms) {
  if (!is_exact(compile.passes.routing))
    return fail("mask.inexact",
                fmt::format("--routing {} chooses no experts, so that none can be kept from being "
                            "chosen",
                            enum_name(compile.passes.routing)),
                "give another --routing, or leave out --expert-mask");
  MOEC_ASSIGN(ExpertSets mask,
              read_expert_mask(compile.choice.mask, grid_of_forms(model, forms), "--expert-mask"));
  std::erase_if(mask.layers,
                [&](const auto& layer) { return std::ssize(layer.second) == model.moe.experts; });
  return mask;
}

Result<Plan> plan_checkpoint(const ExportOptions& options, std::vector<ShardCut>& cuts,
                             Diagnostics& notes) {
  const CompileOptions& compile = options.compile;
  BuildOptions build = compile.build;
  MOEC_TRY(choose_forms(compile.passes.target, compile.calibration, build.weights));
  MOEC_ASSIGN(Checkpoint checkpoint, open_checkpoint(options.source));
  notes = std::move(checkpoint.warnings);
  MOEC_ASSIGN(MadePlan made,
              naming_file(make_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                                    compile.passes.target,
                                    {std::move(build), compile.cuts, compile.kv, compile.mla,
                                     options.source.layers}),
                          config_path(options.source.path)));
  ExpertChoices& experts = made.plan.build.experts;
  MOEC_ASSIGN(experts.top_k, plan_top_k(compile, made.plan.model, options.output.ane_book));
  MOEC_TRY(check_capacity(compile.passes, made.plan.model));
  if (!compile.choice.mask.empty()) {
    MOEC_ASSIGN(experts.mask, mask_of(compile, made.plan.model, experts.top_k));
  }
  cuts = std::move(made.cuts);
  notes.insert(notes.end(), made.notes.begin(), made.notes.end());
  made.plan.weight_seed = options.source.weight_seed;
  return std::move(made.plan);
}

// The devices that the manifest assigns shards to; none where the user named none. A copy of an
// expert is a copy of its shard, so experts are replicated only where they have shards of their
// own.
Result<std::vector<manifest::Device>> assign_devices(const CompileOptions& options,
                                                     const Plan& plan) {
  std::vector<manifest::Device> assigned;
  if (options.devices.devices.empty()) return assigned;
  if (!options.devices.loads.empty() && !plan.build.host_routing)
    return fail("plan.replicas",
                "the experts of a layer share one shard, and only whole shards are replicated",
                "give --experts-per-shard; 1 replicates single experts");
  MOEC_ASSIGN(const MeasuredPlan measured,
              measure_plan(plan, options.cuts, options.devices, [&](size_t index) {
                return compiled_size(plan, index, options.passes, options.run);
              }));
  MOEC_CHECK(measured.devices, "measure_plan() gave no devices");
  const DevicePlan& devices = *measured.devices;
  for (size_t d = 0; d < devices.devices.size(); ++d) {
    assigned.push_back({devices.devices[d].name, devices.devices[d].bytes, {}});
    for (const std::string& name : devices.shards_of(d)) assigned.back().shards.push_back({name});
  }
  return assigned;
}

struct PlannedBytes {
  uint64_t payload = 0;   // of the weights that the shards will hold
  EncoderMemory encoder;  // of the largest weight that is encoded with a calibration
};

// Adds the shards that are like one whose inputs are taken in blocks: one of each such set was
// measured.
void add_alike(const Plan& plan, const std::vector<ShardSize>& sizes, EncoderMemory& encoder) {
  const auto measured = encoder.in_blocks;
  for (size_t one = 0; one < sizes.size(); ++one) {
    const auto found = measured.find(plan.shards[one].name);
    if (found == measured.end()) continue;
    for (size_t other = 0; other < sizes.size(); ++other)
      if (plan.shards[other].kind == plan.shards[one].kind && sizes[other] == sizes[one])
        encoder.in_blocks[plan.shards[other].name] = found->second;
  }
}

// Shards above their budgets are errors, or notes where the user allows them. Peaks of activations
// do not matter to a budget, so shards are compiled only where their weights are encoded.
Result<PlannedBytes> keep_budgets(const Plan& plan, const ExportOptions& options, size_t targets,
                                  Diagnostics& notes) {
  const CompileOptions& compile = options.compile;
  const CutOptions& cuts = compile.cuts;
  PlannedBytes bytes;
  bytes.encoder.limit = encoder_limit(options.compile, options.resources, targets);
  std::function<void(const Shard&)> visit;
  if (!compile.calibration.empty())
    visit = [&](const Shard& placed) { bytes.encoder.take(placed); };
  MOEC_ASSIGN(const std::vector<ShardSize> sizes, measure_shards(plan, [&](size_t index) {
                return plan.build.weights.all_float()
                           ? Result<CompiledSize>(CompiledSize{})
                           : compiled_size(plan, index, compile.passes, compile.run, visit);
              }));
  for (const ShardSize& size : sizes) bytes.payload += static_cast<uint64_t>(size.weight_bytes);
  Diagnostics findings = check_budgets(report_plan(plan, sizes, cuts), cuts);
  if (has_error(findings)) return fail(std::move(findings));
  notes.insert(notes.end(), findings.begin(), findings.end());
  add_alike(plan, sizes, bytes.encoder);
  findings = note_blocks(bytes.encoder);
  notes.insert(notes.end(), findings.begin(), findings.end());
  return bytes;
}

// Builds every shard to verify the plan, and reads the weights that every token depends on.
Status check_plan(const Plan& plan, const WeightReader& reader, const ValueOptions& allowed,
                  std::set<std::string>& fine, Diagnostics& notes) {
  std::vector<ShardInterface> interfaces;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    MOEC_ASSIGN(Shard shard, build_shard(plan, i, plan.build.tokens.front()));
    if (!plan.weight_seed) MOEC_TRY(check_sensitive_weights(shard, reader, allowed, fine));
    interfaces.push_back(interface_of(shard));
  }
  Diagnostics findings = verify_plan(plan, interfaces);
  if (has_error(findings)) return fail(std::move(findings));
  notes.insert(notes.end(), findings.begin(), findings.end());
  return {};
}

bool has_one_package_a_shard(const CompileOptions& options) {
  return options.build.tokens.size() == 1 || options.coreml.packaging == WidthPackaging::range;
}

// Warns, once for all shards, that the chosen packaging costs time on a device.
void note_packaging(const CompileOptions& options, Diagnostics& notes) {
  if (options.coreml.packaging != WidthPackaging::range) return;
  notes.push_back(
      {Severity::warning,
       "export.range_widths",
       "Core ML compiles a range package anew for each width that it meets, which takes "
       "minutes on a device",
       "leave --widths out for a package of each width",
       {}});
}

// The reference implementation changes from the short rotary factors to the long ones when a text
// grows beyond the original length. A static table holds one set of factors: those of its context.
void note_rotations(const Plan& plan, Diagnostics& notes) {
  const std::vector<RopeConfig> ropes = plan.model.rotations();
  const auto far = std::find_if(ropes.begin(), ropes.end(), [&](const RopeConfig& rope) {
    return has_long_factors(rope, plan.build.context);
  });
  if (far == ropes.end()) return;
  const RopeConfig& rope = *far;
  notes.push_back(
      {Severity::warning,
       "export.long_factors",
       fmt::format("the rotary table has {}; unlike in the reference, shorter texts are rotated by "
                   "them as well",
                   describe_factors(rope, plan.build.context)),
       fmt::format("export with --context {} for such texts", rope.original_max_positions),
       {}});
}

// A tokenizer is not needed for an export, but without one a text cannot be given to it. An export
// of noise has no use for one.
void note_tokenizer(const SourceOptions& source, const CarriedSource& carried, Diagnostics& notes) {
  if (source.weight_seed || has_tokenizer(carried)) return;
  notes.push_back({Severity::note,
                   "export.no_tokenizer",
                   "the checkpoint has no tokenizer, so the export carries none: it takes token "
                   "ids, not text",
                   "to give it text, add tokenizer.json to the checkpoint and export again",
                   {.file = carried.folder}});
}

// The text files that go with the model. A tokenizer of a GGUF file that moec cannot write is left
// out with a note.
Result<CarriedSource> carried_files_of(const SourceOptions& source, Diagnostics& notes) {
  MOEC_ASSIGN(CarriedSource carried, carried_source(source.path));
  const Status fine = check_carried_files(carried);
  if (!fine && carried.made.empty()) return fail(fine.error());
  if (!fine) {
    carried.made.clear();
    for (Diagnostic finding : fine.error()) {
      finding.severity = Severity::note;
      notes.push_back(std::move(finding));
    }
  }
  note_tokenizer(source, carried, notes);
  return carried;
}

Status check_out_is_not_source(const ExportOptions& options) {
  std::error_code error;
  if (std::filesystem::equivalent(options.source.path, options.output.folder, error))
    return fail("export.out_is_source", "the output folder is the checkpoint's own folder",
                "choose another --out", {.file = options.output.folder});
  return {};
}

// Refuses labels from which no runtime could find spans, and reads the biases of their transitions.
Status complete_tagging(const std::string& source, manifest::Tagging& tagging) {
  if (auto tags = parse_tags(tagging); !tags) {
    for (Diagnostic& finding : tags.error()) finding.place.file = config_path(source);
    return fail(std::move(tags.error()));
  }
  return read_calibration(source_folder(source), tagging);
}

// What the manifest says of the plan, the options and the checkpoint's text files.
Result<Manifest> begin_manifest(const ExportOptions& options, const Plan& plan,
                                Diagnostics& notes) {
  const CompileOptions& compile = options.compile;
  const std::string folder = source_folder(options.source.path);
  Manifest manifest =
      describe_plan(plan, compile.passes, compile.cuts.budgets, compile.choice.rules);
  MOEC_ASSIGN(manifest.devices, assign_devices(compile, plan));
  if (options.output.ane_book)
    MOEC_TRY(check_ane_book(plan, manifest.build, has_one_package_a_shard(compile)));
  if (!names_gguf(options.source.path)) {
    MOEC_ASSIGN(manifest.model.config_digest, digest_file(config_path(options.source.path)));
  }
  MOEC_ASSIGN(const bool bytes, tokens_are_bytes(folder));
  if (bytes) manifest.tokenizer = manifest::TokenizerKind::bytes;
  MOEC_ASSIGN(manifest.model.eos_tokens,
              source_eos_tokens(options.source.path, manifest.model.vocab, notes));
  if (manifest.tagging) MOEC_TRY(complete_tagging(options.source.path, *manifest.tagging));
  return manifest;
}

// What the process keeps for each shard until the manifest is written, measured with 7,800 shards
// for Core ML against 3,100; and for each tensor while it is written, measured with 99,203 tensors.
constexpr uint64_t kShardBytes = uint64_t{32} << 10;
constexpr uint64_t kRecordBytes = uint64_t{1} << 10;
struct OpenReader {
  WeightReader reader;
  int workers = 1;
};

// Fails where not even one job for each target has room to encode with the calibration, or not as
// many as the user asks for.
Status check_encoder(const ExportResources& resources, size_t targets, uint64_t plan_bytes,
                     const EncoderMemory& encoder) {
  const int jobs = std::max(resources.jobs, 1) * static_cast<int>(targets);
  const uint64_t memory = resources.memory_bytes;
  if (encoder.bytes == 0 || export_reader(memory, jobs, plan_bytes, encoder.bytes) ||
      !export_reader(memory, jobs, plan_bytes))
    return {};
  return fail(
      "encode.over_budget",
      fmt::format("encoding {} with a calibration takes {} MiB, of them {} MiB for the "
                  "moments of its {} inputs; {} at a time do not fit into {} MiB",
                  encoder.what, (encoder.bytes >> 20) + 1,
                  (metric_bytes(encoder.inputs, MetricParts::factor) / encoder.blocks >> 20) + 1,
                  encoder.inputs, jobs, memory >> 20),
      jobs > 1 ? "give more --memory, fewer --jobs or targets, or leave out --calibration"
               : "give more --memory, keep this group float, or leave out --calibration");
}

// Opens the reader with this target's share of the memory. The other targets are not all planned
// yet: they are taken to be as large as this one.
Result<OpenReader> open_reader(const ExportOptions& options, const Plan& plan, size_t targets,
                               const PlanMemory& planned, const EncoderMemory& encoder) {
  MOEC_ASSIGN(WeightReader reader,
              WeightReader::open(plan.weight_seed ? WeightTable() : plan.weights));
  return_free_memory();
  const ExportResources& resources = options.resources;
  const uint64_t held = targets * (planned.held() + plan.shards.size() * kShardBytes);
  MOEC_TRY(check_encoder(resources, targets, beyond_usual(held), encoder));
  const int workers = resources.jobs > 0 ? resources.jobs
                                         : default_jobs(resources.memory_bytes, targets,
                                                        beyond_usual(held), encoder.bytes);
  MOEC_ASSIGN(const ReaderOptions reading,
              export_reader(resources.memory_bytes, workers * static_cast<int>(targets),
                            beyond_usual(held), encoder.bytes));
  // Before anything was read, and when nothing is read any more but the manifest is written.
  const uint64_t written = held + targets * plan.weights.tensors.size() * kRecordBytes;
  MOEC_TRY(
      check_plan_bytes(resources.memory_bytes, beyond_usual(std::max(planned.peak(), written))));
  return OpenReader{std::move(reader).with_options(reading), workers};
}

}  // namespace

Result<PlannedExport> plan_export(const ExportOptions& options, size_t targets,
                                  std::set<std::string>& fine) {
  MOEC_TRY(check_out_is_not_source(options));
  const PlanMemory planned;
  std::vector<ShardCut> cuts;
  Diagnostics notes;
  MOEC_ASSIGN(Plan plan, plan_checkpoint(options, cuts, notes));
  MOEC_ASSIGN(const PlannedBytes bytes, keep_budgets(plan, options, targets, notes));
  MOEC_ASSIGN(OpenReader open, open_reader(options, plan, targets, planned, bytes.encoder));
  MOEC_TRY(check_plan(plan, open.reader, options.values, fine, notes));
  ExportOptions own = options;
  MOEC_ASSIGN(own.compile.choice.rules, plan_top_k_policy(options.compile, plan));
  if (own.compile.fold_overflow) {
    MOEC_ASSIGN(own.compile.folds, find_folds(plan, open.reader, notes));
  }
  MOEC_TRY(try_each_kind(plan, own.compile));
  note_packaging(options.compile, notes);
  note_rotations(plan, notes);
  if (options.output.ane_book) note_fixed_in_book(plan, notes);
  MOEC_ASSIGN(CarriedSource carried, carried_files_of(options.source, notes));
  MOEC_ASSIGN(Manifest manifest, begin_manifest(own, plan, notes));
  MOEC_ASSIGN(ExportInputs inputs, export_inputs(options, plan));
  if (const EncoderMemory& encoder = bytes.encoder; !encoder.in_blocks.empty())
    inputs["option --calibration-inputs"] =
        fmt::format("{} in {} bytes", encoder.limit.inputs, encoder.limit.bytes);
  MOEC_ASSIGN(auto calibration, open_calibration(options.compile.calibration, plan,
                                                 options.compile.passes, options.source.path));
  OutNames names = options.output.ane_book ? ane_book_names(options) : OutNames();
  return PlannedExport{std::move(own),         std::move(plan),        std::move(cuts),
                       std::move(open.reader), std::move(calibration), bytes.encoder.limit,
                       open.workers,           std::move(names),       std::move(carried),
                       std::move(manifest),    bytes.payload,          std::move(inputs),
                       std::move(notes)};
}

}  // namespace moec
