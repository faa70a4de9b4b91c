#include "frontends/cli/flags/export_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <span>

#include "backends/formats/format.h"
#include "backends/targets/find_target.h"
#include "frontends/cli/flags/byte_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/compile/ane_book_form.h"
#include "frontends/export/target_names.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

bool any_has(std::span<const Target> targets, FormatOption option) {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const Target& target) { return format_of(target.format).has(option); });
}

std::string names_of(std::span<const Target> targets) {
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// A flag for one format is given only to the targets of that format. If there is none, the flag is
// an error: ignoring it would hide a mistake.
Status check_flags(const ExportFlags& flags, std::span<const Target> targets) {
  if (!any_has(targets, FormatOption::width_packaging) &&
      (flags.coreml.multi_function || flags.coreml.widths != "separate" ||
       flags.coreml.spec_version != 0))
    return fail("export.flags",
                fmt::format("--multi-function, --widths and --spec-version are for Core ML "
                            "packages; target {} has none",
                            names_of(targets)),
                "give --target ane, or leave them out");
  if (!any_has(targets, FormatOption::data_checksum) && flags.digests.onnx_checksum)
    return fail("export.flags", "--onnx-checksum is for ONNX files; Core ML packages have none",
                "leave it out; --digest sha256 works for both formats");
  if (!any_has(targets, FormatOption::max_file_bytes) &&
      !(flags.gguf.max_file_size.empty() && flags.gguf.tokenizer.empty()))
    return fail(
        "export.flags",
        fmt::format("--max-file-size and --tokenizer are for GGUF files; target {} has none",
                    names_of(targets)),
        "leave them out, or give --target gguf");
  if (!any_has(targets, FormatOption::accuracy_level) && flags.values.accuracy_level != 0)
    return fail("export.flags", "--accuracy-level is for ONNX files; Core ML packages have none",
                "leave it out, or give --target onnx");
  return {};
}

// The flags that were given and say how graphs are made.
std::vector<std::string_view> given_graph_flags(const ExportFlags& flags) {
  const ShardFlags& shards = flags.shards;
  const PassFlags& passes = flags.passes;
  const PassFlags usual;
  std::vector<std::string_view> given;
  const auto note = [&](bool is_given, std::string_view flag) {
    if (is_given) given.push_back(flag);
  };
  note(shards.tokens != ShardFlags().tokens, "--tokens");
  note(shards.context != 0, "--context");
  note(!shards.kv.empty(), "--kv");
  note(!shards.mla.empty(), "--mla");
  note(!shards.layout.empty(), "--layout");
  note(!shards.max_shard_mb.empty(), "--max-shard-mb");
  note(shards.experts_per_shard != 0, "--experts-per-shard");
  note(!shards.expert_align.empty(), "--expert-align");
  note(!shards.expert_groups.empty(), "--expert-groups");
  note(!shards.layers_per_shard.empty(), "--layers-per-shard");
  note(shards.head_slices != 0, "--head-slices");
  note(passes.routing != usual.routing, "--routing");
  note(passes.experts != usual.experts, "--experts");
  note(!passes.attention.empty(), "--attention");
  note(!passes.form.empty(), "--form");
  note(!passes.sum.empty(), "--sum");
  note(!flags.devices.devices.empty(), "--device");
  note(flags.values.fold_overflow, "--fold-overflow");
  note(!flags.values.calibration.empty(), "--calibration");
  note(!flags.values.expert_mask.empty(), "--expert-mask");
  note(!flags.values.top_k.policy.empty(), "--top-k-policy");
  note(flags.values.top_k.capacity > 0, "--capacity");
  note(flags.trial.layers != 0, "--layers");
  note(flags.trial.seed.has_value(), "--seeded-weights");
  return given;
}

// Files of weights are written alone, and without what is said of graphs.
Status check_weights_only(const ExportFlags& flags, std::span<const Target> targets) {
  const bool has_one = std::any_of(targets.begin(), targets.end(), [](const Target& target) {
    return format_of(target.format).shape == FormatShape::weights_only;
  });
  if (!has_one) return {};
  if (targets.size() > 1)
    return fail(
        "export.flags",
        fmt::format("of the targets {}, one has files without graphs, which are not written "
                    "together with others",
                    names_of(targets)),
        "export for each of them alone");
  if (!flags.values.top_k.forms.empty())
    return fail(
        "top_k.format",
        fmt::format("--top-k makes graphs, and target {} has files of weights, of which the "
                    "runtime chooses as many experts as their key expert_used_count says",
                    names_of(targets)),
        "leave it out; llama.cpp takes another number as --override-kv "
        "ARCHITECTURE.expert_used_count=int:1");
  const std::vector<std::string_view> given = given_graph_flags(flags);
  if (given.empty()) return {};
  return fail("export.flags",
              fmt::format("{} has no effect for target {}, whose files hold no graphs",
                          fmt::join(given, ", "), names_of(targets)),
              "leave it out");
}

// The options that are the same for all targets.
Result<ExportOptions> common_options(const ExportFlags& flags) {
  ExportOptions options;
  SourceOptions& source = options.source;
  source.path = flags.source;
  if (!flags.family_file.empty()) source.family_file = flags.family_file;
  source.weight_seed = flags.trial.seed;
  source.layers = flags.trial.layers;
  options.values = {flags.values.allow_overflow, flags.values.allow_nonfinite};
  options.compile.fold_overflow = flags.values.fold_overflow;
  options.compile.calibration = flags.values.calibration;
  options.compile.calibration_inputs = flags.values.calibration_inputs;
  options.compile.choice.mask = flags.values.expert_mask;
  options.compile.choice.top_k = flags.values.top_k.forms;
  options.compile.choice.policy = flags.values.top_k.policy;
  options.compile.kv = flags.shards.kv;
  options.compile.mla = flags.shards.mla;
  options.output.folder = flags.out;
  options.output.sha256 = flags.digests.digest == "sha256";
  options.output.force = flags.force;
  ExportResources& resources = options.resources;
  MOEC_ASSIGN(const int64_t memory, bytes_of_mebibyte_flag("--memory", flags.resources.memory));
  resources.memory_bytes = static_cast<uint64_t>(memory);
  resources.jobs = flags.resources.jobs.value_or(0);
  return options;
}

Result<ExportOptions> target_options(const ExportFlags& flags, const PassFlags& passes,
                                     std::span<const Target> targets) {
  MOEC_ASSIGN(ExportOptions options, common_options(flags));
  CompileOptions& compile = options.compile;
  if (is_target_file(passes.target)) compile.target_file = passes.target;
  compile.chip = passes.chip;
  MOEC_ASSIGN(compile.passes, pass_options(passes));
  compile.passes.capacity = flags.values.top_k.capacity;
  MOEC_ASSIGN(compile.run, run_options(passes));
  MOEC_TRY(choose_projection(flags.shards, passes.form, compile.passes.target));
  const Target& target = compile.passes.target;
  MOEC_ASSIGN(compile.build, build_options(flags.shards, compile.passes));
  MOEC_ASSIGN(compile.cuts, cut_options(flags.shards, target));
  MOEC_ASSIGN(compile.devices, device_options(flags.devices));
  const Format& format = format_of(target.format);
  if (format.has(FormatOption::width_packaging))
    compile.coreml.packaging = flags.coreml.multi_function
                                   ? WidthPackaging::functions
                                   : *parse_enum<WidthPackaging>(flags.coreml.widths);
  if (format.has(FormatOption::spec_version))
    compile.coreml.spec_version = flags.coreml.spec_version;
  OutputOptions& output = options.output;
  MOEC_ASSIGN(output.expert_alignment, expert_alignment(flags.shards));
  if (!flags.gguf.max_file_size.empty()) {
    MOEC_ASSIGN(const int64_t most, bytes_of_flag("--max-file-size", flags.gguf.max_file_size));
    output.gguf.max_file_bytes = static_cast<uint64_t>(most);
  }
  output.gguf.tokenizer = flags.gguf.tokenizer.empty();
  output.onnx.checksum = format.has(FormatOption::data_checksum) && flags.digests.onnx_checksum;
  if (format.has(FormatOption::accuracy_level))
    output.onnx.accuracy_level = flags.values.accuracy_level;
  output.ane_book =
      flags.coreml.compat == "ane-book" &&
      (format.has(FormatOption::ane_book) || !any_has(targets, FormatOption::ane_book));
  if (output.ane_book) {
    output.book_model = flags.coreml.name;
    cut_for_ane_book(compile.cuts);
  }
  return options;
}

// The flags once for each of the comma-separated targets.
std::vector<PassFlags> split_targets(const PassFlags& flags) {
  std::vector<PassFlags> split;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = flags.target.find(',', begin);
    split.push_back(flags);
    split.back().target = flags.target.substr(begin, end - begin);
  }
  return split;
}

// --chip applies to the targets that have chips. If none has, it stays, and is refused later.
void keep_chip(std::span<const Target> targets, std::span<PassFlags> passes) {
  const auto has_chips = [](const Target& target) { return !target.chips.empty(); };
  if (std::none_of(targets.begin(), targets.end(), has_chips)) return;
  for (size_t i = 0; i < targets.size(); ++i)
    if (!has_chips(targets[i])) passes[i].chip.clear();
}

// The name becomes part of file names.
std::string check_name(const std::string& name) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
  return is_plain && !name.empty() ? "" : "the name may have letters, digits, _ and - only";
}

std::string check_factor(const std::string& text) {
  return parse_positive(text) ? "" : fmt::format("{} is no factor above 0", text);
}

void add_expert_align_flag(CLI::App& command, ShardFlags& flags) {
  command.add_option("--expert-align", flags.expert_align,
                     "Begin each expert in a file of weights at a multiple of this power of two, "
                     "e.g. 64K, for runtimes that read one expert at a time (default: 64K with "
                     "--experts-per-shard, else as the format has it)");
}

void add_coreml_flags(CLI::App& command, CoremlFlags& flags) {
  add_compat_flags(command, flags);
  command.add_flag("--multi-function", flags.multi_function, "The same as --widths functions")
      ->excludes("--widths");
  command
      .add_option("--spec-version", flags.spec_version,
                  "Core ML: specification version of the packages, 6 (iOS 15) to 9 (iOS 18) "
                  "(default: the lowest that has what the shards need)")
      ->check(CLI::Range(6, 9));
  command
      .add_option(
          "--name", flags.name,
          "With --compat: the name of the model in these files, e.g. zaya for zaya_ane/ and "
          "zaya_runtime_meta.json (default: that of CHECKPOINT)")
      ->check(CLI::Validator(check_name, "[A-Za-z0-9_-]+"))
      ->needs("--compat");
}

void add_gguf_flags(CLI::App& command, GgufFlags& flags) {
  command.add_option("--max-file-size", flags.max_file_size,
                     "GGUF: the most bytes of a file, e.g. 4GB; a model with more is spread over "
                     "NAME-00001-of-0000N.gguf and so on (default: one file)");
  command
      .add_option("--tokenizer", flags.tokenizer,
                  "GGUF: none writes files that take token ids, not text (default: the "
                  "checkpoint's tokenizer)")
      ->check(one_of({"none"}));
}

void add_digest_flags(CLI::App& command, DigestFlags& flags) {
  command
      .add_option("--digest", flags.digest,
                  "Record this digest of each file in the manifest, besides XXH3")
      ->check(one_of({"sha256"}));
  command.add_flag("--onnx-checksum", flags.onnx_checksum,
                   "ONNX: write the SHA-1 of each data file into the graphs, as `checksum`");
}

void add_trial_flags(CLI::App& command, TrialFlags& flags) {
  command
      .add_option("--layers", flags.layers,
                  "Export only the first N layers, to try out a large model. Such a folder can be "
                  "checked, but neither validated nor run (default: all layers)")
      ->check(whole_from(1));
  command
      .add_option("--seeded-weights", flags.seed,
                  "Fill the shards with noise of this seed instead of the checkpoint's weights, "
                  "to measure sizes and times. CHECKPOINT may then be a config.json")
      ->check(whole_from(0));
}

void add_value_flags(CLI::App& command, ValueFlags& flags) {
  add_mask_flag(command, flags.expert_mask);
  command.add_option("--calibration", flags.calibration,
                     "Choose the codes of --weights for the inputs in this folder of moec "
                     "calibrate (default: the nearest codes)");
  command
      .add_option("--calibration-inputs", flags.calibration_inputs,
                  "The most inputs of a matrix that make up for one another's errors; more are "
                  "taken in blocks, with less memory (default: as many as --memory has room for)")
      ->check(whole_from(1));
  command
      .add_option("--accuracy-level", flags.accuracy_level,
                  "How onnxruntime multiplies with weights of 4 bits: 0 in the type of the "
                  "activations, 4 in int8, which is several times as fast and less exact")
      ->check(CLI::IsMember(std::vector<int>{0, 4}))
      ->capture_default_str();
  command.add_flag("--fold-overflow", flags.fold_overflow,
                   "Where an up or a down projection overflows f16, move a power of two between "
                   "the two, which changes no result. Reads all of them once more");
  command.add_flag("--allow-overflow", flags.allow_overflow,
                   "Go on, with a warning, where a weight is too large for the element type: it "
                   "is written as an infinity");
  command.add_flag("--allow-nonfinite", flags.allow_nonfinite,
                   "Go on, with a warning, where a weight is NaN or infinite in the checkpoint");
}

void add_top_k_flags(CLI::App& command, TopKFlags& flags) {
  CLI::Option* forms = command.add_option(
      "--top-k", flags.forms,
      "How many experts a token takes: graphs for each number, which share their weights, as 1,2, "
      "or with other numbers in some layers, as 'L0-3:1;L4-:2' (default: as many as the checkpoint "
      "says)");
  command
      .add_option("--top-k-policy", flags.policy,
                  "A JSON file of rules by which a runtime chooses among the forms of --top-k: by "
                  "battery, category or confidence")
      ->needs(forms);
  command
      .add_option(
          "--capacity", flags.capacity,
          "In steps of T tokens, an expert takes at most N * T * k / experts of them, rounded "
          "up, and drops those behind. Not exact (default: it takes all)")
      ->check(CLI::Validator(check_factor, "N > 0"));
}

void add_resource_flags(CLI::App& command, ResourceFlags& flags) {
  command
      .add_option("-j,--jobs", flags.jobs,
                  "Shards compiled at the same time, 1 to 256. Each job has threads of its own "
                  "that read, convert and write. The output does not depend on it (default: 4, "
                  "or as many as --memory has room for)")
      ->check(CLI::Range(1, 256));
  command
      .add_option("--memory", flags.memory,
                  "The most memory that the whole export may use, in MiB or with a unit: 2GB, "
                  "512MiB. What the index and the plan take of it is measured; an export that "
                  "needs more is refused before anything is written")
      ->capture_default_str();
}

void describe_targets(CLI::App& command) {
  CLI::Option* target = command.get_option("--target");
  target->description(target->get_description() +
                      ". With several, onnx,ane, each gets a folder of its name in --out, and "
                      "weights that have the same bytes in several are read once (with --dtype f16 "
                      "nearly all)");
}

}  // namespace

void add_compat_flags(CLI::App& command, CoremlFlags& flags) {
  command
      .add_option("--widths", flags.widths,
                  "Core ML: how several token widths are packaged. separate: a package for each; "
                  "functions: one package with a function for each, which share the weights; "
                  "range: one package whose token dimension is a range")
      ->check(one_of({"separate", "functions", "range"}))
      ->capture_default_str();
  command
      .add_option("--compat", flags.compat,
                  "Core ML: also write the file names and the metadata of another runtime")
      ->check(one_of({"ane-book"}));
}

Result<std::vector<ExportOptions>> export_options(const ExportFlags& flags) {
  std::vector<PassFlags> passes = split_targets(flags.passes);
  std::vector<Target> targets;
  for (const PassFlags& one : passes) {
    MOEC_ASSIGN(Target target, find_target(one.target));
    targets.push_back(std::move(target));
  }
  const bool several = targets.size() > 1;
  if (several) MOEC_TRY(check_target_names(targets));
  MOEC_TRY(check_flags(flags, targets));
  MOEC_TRY(check_weights_only(flags, targets));
  keep_chip(targets, passes);
  std::vector<ExportOptions> all;
  for (size_t i = 0; i < targets.size(); ++i) {
    MOEC_ASSIGN(ExportOptions options, target_options(flags, passes[i], targets));
    if (several) options.output.folder += "/" + targets[i].name;
    if (several) options.compile.run.subfolder = targets[i].name;
    all.push_back(std::move(options));
  }
  return all;
}

void add_export_flags(CLI::App& command, ExportFlags& flags) {
  command
      .add_option("CHECKPOINT", flags.source,
                  "Checkpoint folder with config.json and .safetensors files")
      ->required();
  command
      .add_option("-o,--out", flags.out,
                  "Folder to write. It is empty or missing, or holds an interrupted export of the "
                  "same inputs and options, which is then resumed")
      ->required();
  add_shard_flags(command, flags.shards);
  add_expert_align_flag(command, flags.shards);
  add_device_flags(command, flags.devices);
  add_coreml_flags(command, flags.coreml);
  add_gguf_flags(command, flags.gguf);
  add_trial_flags(command, flags.trial);
  command.add_option("--family-file", flags.family_file,
                     "Read the config with this family descriptor instead of a built-in one "
                     "(models/families/README.md)");
  add_value_flags(command, flags.values);
  add_top_k_flags(command, flags.values.top_k);
  add_digest_flags(command, flags.digests);
  add_resource_flags(command, flags.resources);
  command.add_flag("--force", flags.force,
                   "Start over, and replace what an earlier export left in --out");
  command.add_flag("-q,--quiet", flags.quiet, "Print only errors and warnings");
  command.add_flag("--json", flags.json, "Print the summary as JSON");
  add_pass_flags(command, flags.passes);
  describe_targets(command);
}

}  // namespace moec
