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
#include "frontends/compile/pipeline_form.h"
#include "frontends/compile/plan_top_k.h"
#include "frontends/compile/shard_packages.h"
#include "frontends/compile/weight_values.h"
#include "frontends/export/ane_book.h"
#include "frontends/export/export_inputs.h"
#include "frontends/export/export_units.h"
#include "frontends/export/litertlm_export.h"
#include "frontends/export/pipeline_export.h"
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
  if (!source.weight_seed) return open_source(source.path, source.family, equal_tensors);
  // With a seed, the weight files may be absent, so only the config is opened.
  MOEC_ASSIGN(Checkpoint checkpoint, open_config_only(source.path, source.family));
  MOEC_TRY(
      refuse_plan_only(checkpoint.config.family, checkpoint.plan_only, config_path(source.path)));
  return checkpoint;
}

// Reads the mask of --expert-mask. Omits layers that keep all of their experts.
Result<ExpertSets> mask_of(const CompileOptions& compile, const ModelConfig& model,
                           const std::vector<TopKVariant>& forms) {
  if (!is_exact(compile.passes.routing))
    return fail("mask.inexact",
                fmt::format("--routing {} runs all experts, so --expert-mask cannot exclude any",
                            enum_name(compile.passes.routing)),
                "pass another --routing, or omit --expert-mask");
  MOEC_ASSIGN(ExpertSets mask,
              read_expert_mask(compile.choice.mask, grid_of_forms(model, forms), "--expert-mask"));
  // The journal records the mask's text, so masks with the same effect must have the same text.
  std::erase_if(mask.layers,
                [&](const auto& layer) { return std::ssize(layer.second) == model.moe.experts; });
  return mask;
}

// The experts that tokens can choose. Known before the plan, because dropped experts are in none of
// its shards.
Result<ExpertChoices> choices_of(const ExportOptions& options, ModelConfig model) {
  const CompileOptions& compile = options.compile;
  ExpertChoices experts = compile.build.experts;
  // As in keep_first_layers(), which refuses a wrong number.
  if (options.source.layers > 0 && options.source.layers < std::ssize(model.layers))
    model.layers.resize(static_cast<size_t>(options.source.layers));
  // The variants come first: a mask must leave enough experts for the largest of them.
  MOEC_ASSIGN(experts.top_k, plan_top_k(compile, model, options.output.compat == Compat::ane_book));
  MOEC_TRY(check_capacity(compile.passes, model));
  if (compile.choice.mask.empty()) return experts;
  MOEC_ASSIGN(experts.mask, mask_of(compile, model, experts.top_k));
  // A mask without an effect has nothing to drop.
  experts.drop_masked = compile.choice.drop_masked && !experts.mask.layers.empty();
  return experts;
}

Result<Plan> plan_checkpoint(const ExportOptions& options, std::vector<ShardCut>& cuts,
                             Diagnostics& notes) {
  const CompileOptions& compile = options.compile;
  BuildOptions build = compile.build;
  // Chooses the forms before the plan, because the cuts depend on the bytes of the forms.
  MOEC_TRY(choose_forms(compile.passes.target, compile.calibration, build.weights));
  MOEC_ASSIGN(Checkpoint checkpoint, open_checkpoint(options.source));
  notes = std::move(checkpoint.warnings);
  MOEC_ASSIGN(build.experts, choices_of(options, checkpoint.config));
  MOEC_ASSIGN(MadePlan made,
              naming_file(make_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                                    compile.passes.target,
                                    {std::move(build), compile.cuts, compile.kv, compile.mla,
                                     options.source.layers}),
                          config_path(options.source.path)));
  cuts = std::move(made.cuts);
  notes.insert(notes.end(), made.notes.begin(), made.notes.end());
  made.plan.weight_seed = options.source.weight_seed;
  return std::move(made.plan);
}

// Returns the devices that the manifest assigns shards to; none if the user named none. Only whole
// shards are replicated, so replicas of experts need experts in separate shards.
Result<std::vector<manifest::Device>> assign_devices(const CompileOptions& options,
                                                     const Plan& plan) {
  std::vector<manifest::Device> assigned;
  if (options.devices.devices.empty()) return assigned;
  if (!options.devices.loads.empty() && !plan.build.host_routing)
    return fail("plan.replicas",
                "--loads replicates whole shards, but the experts of a layer share one shard",
                "pass --experts-per-shard (1 replicates single experts)");
  MOEC_ASSIGN(const MeasuredPlan measured,
              measure_plan(plan, options.cuts, options.devices, [&](size_t index) {
                return compiled_size(plan, index, options.passes, options.run);
              }));
  // measure_plan() plans devices whenever the options name some.
  MOEC_CHECK(measured.devices, "measure_plan() gave no devices");
  const DevicePlan& devices = *measured.devices;
  const std::vector<ShardPackage> packages = shard_packages(plan, options);
  for (size_t d = 0; d < devices.devices.size(); ++d) {
    assigned.push_back({devices.devices[d].name, devices.devices[d].bytes, {}});
    std::set<std::string> held;
    for (const std::string& name : devices.shards_of(d)) {
      assigned.back().shards.push_back({name});
      held.insert(name);
    }
    MOEC_TRY(check_whole_packages(packages, plan, held, devices.devices[d].name));
  }
  return assigned;
}

struct PlannedBytes {
  std::vector<uint64_t> shards;  // weight bytes of each shard
  EncoderMemory encoder;         // largest memory for encoding one weight with a calibration
};

// Copies the input blocks of measured shards to shards of the same kind and size, because
// measure_shards() compiles only one of several equal shards.
void add_alike(const Plan& plan, const std::vector<ShardSize>& sizes, EncoderMemory& encoder) {
  // A copy, because the loop inserts into the map and must find only measured shards.
  const auto measured = encoder.in_blocks;
  for (size_t one = 0; one < sizes.size(); ++one) {
    const auto found = measured.find(plan.shards[one].name);
    if (found == measured.end()) continue;
    for (size_t other = 0; other < sizes.size(); ++other)
      if (plan.shards[other].kind == plan.shards[one].kind && sizes[other] == sizes[one])
        encoder.in_blocks[plan.shards[other].name] = found->second;
  }
}

// Checks the budgets of the shards. A shard above its budget is an error, or a warning with
// --allow-over-budget. Budgets do not depend on activations, so shards are compiled only if their
// weights are quantized.
Result<PlannedBytes> keep_budgets(const Plan& plan, const ExportOptions& options, size_t targets,
                                  Diagnostics& notes) {
  const CompileOptions& compile = options.compile;
  const CutOptions& cuts = compile.cuts;
  PlannedBytes bytes;
  bytes.encoder.limit = encoder_limit(options.compile, options.resources, targets);
  // Stays empty without a calibration, because other encoders need no memory for moments.
  std::function<void(const Shard&)> visit;
  if (!compile.calibration.empty())
    visit = [&](const Shard& placed) { bytes.encoder.take(placed); };
  MOEC_ASSIGN(const std::vector<ShardSize> sizes, measure_shards(plan, [&](size_t index) {
                return plan.build.weights.all_float()
                           ? Result<CompiledSize>(CompiledSize{})
                           : compiled_size(plan, index, compile.passes, compile.run, visit);
              }));
  for (const ShardSize& size : sizes)
    bytes.shards.push_back(static_cast<uint64_t>(size.weight_bytes));
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
  // Only the interfaces are kept, so that one shard at a time is in memory.
  std::vector<ShardInterface> interfaces;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    MOEC_ASSIGN(Shard shard, build_shard(plan, i, plan.build.tokens.front()));
    // Every token depends on these weights, so a NaN in them makes the export useless. They are
    // therefore read before anything is written.
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
       "Core ML recompiles a range package for each new token width, which takes minutes on a "
       "device",
       "omit --widths to compile each token width once",
       {}});
}

// Warns if the context selects the long rotary factors. The reference implementation switches from
// the short factors to the long ones when a text exceeds the original length, but a static table
// contains only one set of factors.
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
       fmt::format("the rotary table has {}, also for short texts, for which the reference uses "
                   "other factors",
                   describe_factors(rope, plan.build.context)),
       fmt::format("export with --context {} for short texts", rope.original_max_positions),
       {}});
}

// Notes a missing tokenizer: the export is valid, but accepts no text. An export with random
// weights does not need one.
void note_tokenizer(const SourceOptions& source, const CarriedSource& carried, Diagnostics& notes) {
  if (source.weight_seed || has_tokenizer(carried)) return;
  notes.push_back({Severity::note,
                   "export.no_tokenizer",
                   "the checkpoint has no tokenizer, so the export accepts token ids, not text",
                   "to use text, add tokenizer.json to the checkpoint and export again",
                   {.file = carried.folder}});
}

// Returns the tokenizer and other text files to copy. If moec cannot write the tokenizer of a GGUF
// file, it is omitted with a note.
Result<CarriedSource> carried_files_of(const SourceOptions& source, Diagnostics& notes) {
  MOEC_ASSIGN(CarriedSource carried, carried_source(source.path));
  const Status fine = check_carried_files(carried);
  // Files of a checkpoint folder exist, so a failure to copy them is an error. Generated files can
  // be omitted.
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

// Refuses labels that do not define spans, and reads the biases of their transitions.
Status complete_tagging(const std::string& source, manifest::Tagging& tagging) {
  if (auto tags = parse_tags(tagging); !tags) {
    // parse_tags() does not know that the labels came from the config.
    for (Diagnostic& finding : tags.error()) finding.place.file = config_path(source);
    return fail(std::move(tags.error()));
  }
  return read_calibration(source_folder(source), tagging);
}

// Fills in the manifest from the plan, the options and the checkpoint's text files.
Result<Manifest> begin_manifest(const ExportOptions& options, const Plan& plan,
                                Diagnostics& notes) {
  const CompileOptions& compile = options.compile;
  const std::string folder = source_folder(options.source.path);
  Manifest manifest =
      describe_plan(plan, compile.passes, compile.cuts.budgets, compile.choice.rules);
  MOEC_ASSIGN(manifest.devices, assign_devices(compile, plan));
  if (options.output.compat == Compat::ane_book)
    MOEC_TRY(check_ane_book(plan, manifest.build, has_one_package_a_shard(compile)));
  if (options.output.compat == Compat::genai)
    MOEC_TRY(check_pipeline(plan, manifest.build, compile.passes.target.engine.decoder_graph));
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

// The packages that this process exports.
Result<std::vector<ShardPackage>> select_packages(const Plan& plan, const ExportOptions& options,
                                                  const PlannedBytes& bytes) {
  std::vector<ShardPackage> all = shard_packages(plan, options.compile);
  if (!options.output.share) return all;
  MOEC_ASSIGN(const Type embedding, view_type(plan.embedding));
  return packages_of_share(*options.output.share, std::move(all), bytes.shards,
                           static_cast<uint64_t>(embedding.bytes()));
}

uint64_t bytes_of(const std::vector<ShardPackage>& packages, const PlannedBytes& bytes) {
  uint64_t sum = 0;
  for (const ShardPackage& package : packages)
    for (const size_t shard : package.shards) sum += at(bytes.shards, shard);
  return sum;
}

}  // namespace

Result<PlannedExport> plan_export(const ExportOptions& options, size_t targets,
                                  std::set<std::string>& fine) {
  MOEC_TRY(check_out_is_not_source(options));
  // PlanMemory measures the growth since its construction, so it comes first.
  const PlanMemory planned;
  std::vector<ShardCut> cuts;
  Diagnostics notes;
  MOEC_ASSIGN(Plan plan, plan_checkpoint(options, cuts, notes));
  MOEC_ASSIGN(auto decoder, plan_decoder(plan, options.compile));
  MOEC_ASSIGN(const PlannedBytes bytes, keep_budgets(plan, options, targets, notes));
  MOEC_ASSIGN(OpenReader open, open_reader(options, plan, targets, planned, bytes.encoder));
  // Precedes find_folds(), which reads all up and down projections and is slower.
  MOEC_TRY(check_plan(plan, open.reader, options.values, fine, notes));
  // Only the copy gets rules and folds, which planning derives. They follow from inputs that
  // export_inputs() records, so export_inputs() gets the given options.
  ExportOptions own = options;
  MOEC_ASSIGN(own.compile.choice.rules, plan_top_k_policy(options.compile, plan));
  if (own.compile.fold_overflow) {
    MOEC_ASSIGN(own.compile.folds, find_folds(plan, open.reader, notes));
  }
  settle_spec_version(plan, own.compile.coreml);
  // Follows find_folds(), because folds change the weights of the shards.
  MOEC_TRY(try_each_kind(plan, own.compile));
  if (decoder) MOEC_TRY(decoder->try_each_kind(plan, own));
  note_packaging(options.compile, notes);
  note_rotations(plan, notes);
  if (options.output.compat == Compat::ane_book) note_fixed_in_book(plan, notes);
  MOEC_ASSIGN(CarriedSource carried, carried_files_of(options.source, notes));
  MOEC_ASSIGN(Manifest manifest, begin_manifest(own, plan, notes));
  const Target& target = own.compile.passes.target;
  if (packs_litertlm(target)) MOEC_TRY(check_litertlm(plan, manifest, own.compile));
  MOEC_ASSIGN(ExportInputs inputs, export_inputs(options, plan));
  // With blocks of inputs, the bytes depend on the encoder's limit and thus on --memory.
  if (const EncoderMemory& encoder = bytes.encoder; !encoder.in_blocks.empty())
    inputs["option --calibration-inputs"] =
        fmt::format("{} in {} bytes", encoder.limit.inputs, encoder.limit.bytes);
  MOEC_ASSIGN(auto calibration, open_calibration(options.compile.calibration, plan,
                                                 options.compile.passes, options.source.path));
  MOEC_ASSIGN(auto packages, select_packages(plan, own, bytes));
  const uint64_t payload = bytes_of(packages, bytes);
  OutNames names = options.output.compat == Compat::ane_book ? ane_book_names(options) : OutNames();
  if (decoder) names.decoder = decoder_files();
  if (packs_litertlm(target)) names.decoder = {kLitertlmFile};
  if (options.output.compat == Compat::genai) names.decoder = pipeline_names(manifest);
  return PlannedExport{std::move(own),
                       std::move(plan),
                       std::move(cuts),
                       std::move(open.reader),
                       std::move(calibration),
                       bytes.encoder.limit,
                       open.workers,
                       std::move(decoder),
                       std::move(names),
                       std::move(carried),
                       std::move(manifest),
                       std::move(packages),
                       payload,
                       std::move(inputs),
                       std::move(notes)};
}

}  // namespace moec
