#include "frontends/cli/flags/export_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <span>

#include "backends/targets/find_target.h"
#include "backends/weights/weight_reader.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/parse_bytes.h"
#include "ir/base/at.h"

namespace moec {
namespace {

bool any_has(std::span<const Target> targets, ShardFormat format) {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const Target& target) { return target.format == format; });
}

std::string names_of(std::span<const Target> targets) {
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Flags that only make sense with some target reach no other; where none of them has use for one,
// it is refused, never passed over.
Status check_flags(const ExportFlags& flags, std::span<const Target> targets) {
  if (!any_has(targets, ShardFormat::coreml) &&
      (flags.multi_function || flags.widths != "separate" || flags.spec_version != 0))
    return fail("export.flags",
                fmt::format("--multi-function, --widths and --spec-version are for Core ML "
                            "packages; target {} has none",
                            names_of(targets)),
                "give --target ane, or leave them out");
  if (!any_has(targets, ShardFormat::onnx) && flags.onnx_checksum)
    return fail("export.flags", "--onnx-checksum is for ONNX files; Core ML packages have none",
                "leave it out; --digest sha256 is for files of either kind");
  return {};
}

bool is_folder_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

// Each of several targets has a folder of its name.
Status check_names(std::span<const Target> targets) {
  std::set<std::string> names;
  for (const Target& target : targets) {
    if (!is_folder_name(target.name))
      return fail("export.flags", fmt::format("\"{}\" can be no folder's name", target.name),
                  "rename the target in its file, or export for it alone");
    if (!names.insert(target.name).second)
      return fail("export.flags", fmt::format("there are two targets named {}", target.name),
                  "rename one of them in its file, or export for each alone");
  }
  return {};
}

// The book's runtimes know only whole MoE layers, whatever their size.
void keep_layers_whole(Budgets& budgets) {
  for (const ShardKind kind : {ShardKind::moe, ShardKind::experts})
    if (Budget& budget = at(budgets, kind); !budget.asked) budget = {};
}

// Several shards under way keep the disk busy while one is begun or flushed to it: of what a disk
// gives when read and written at once, `--jobs 2` took 0.82, 3 took 0.92, 4 and 6 took 0.95 (4 GB
// to ONNX, medians of four rounds). Fewer where each would get too little memory to read at speed.
int default_jobs(uint64_t memory_bytes, size_t targets) {
  constexpr int kMostJobs = 4;
  constexpr uint64_t kEnoughBytes = uint64_t{16} << 20;
  for (int jobs = kMostJobs; jobs > 1; --jobs)
    if (const auto reading = export_reader(memory_bytes, jobs * static_cast<int>(targets));
        reading && reading->memory_bytes >= kEnoughBytes)
      return jobs;
  return 1;
}

// What is the same for all targets.
Result<ExportOptions> common_options(const ExportFlags& flags, size_t targets) {
  ExportOptions options;
  options.source = flags.source;
  options.out = flags.out;
  if (!flags.family_file.empty()) options.family_file = flags.family_file;
  options.kv = flags.shards.kv;
  options.mla = flags.shards.mla;
  options.weight_seed = flags.seed;
  options.layers = flags.layers;
  options.sha256 = flags.digest == "sha256";
  MOEC_ASSIGN(const int64_t memory, bytes_of_mebibyte_flag("--memory", flags.memory));
  options.memory_bytes = static_cast<uint64_t>(memory);
  options.jobs = flags.jobs ? *flags.jobs : default_jobs(options.memory_bytes, targets);
  options.force = flags.force;
  return options;
}

Result<ExportOptions> target_options(const ExportFlags& flags, const PassFlags& passes,
                                     std::span<const Target> targets) {
  MOEC_ASSIGN(ExportOptions options, common_options(flags, targets.size()));
  if (is_target_file(passes.target)) options.target_file = passes.target;
  options.chip = passes.chip;
  MOEC_ASSIGN(options.passes, pass_options(passes));
  MOEC_ASSIGN(options.run, run_options(passes));
  const Target& target = options.passes.target;
  MOEC_ASSIGN(options.build, build_options(flags.shards, options.passes));
  MOEC_ASSIGN(options.cuts, cut_options(flags.shards, target));
  MOEC_ASSIGN(options.devices, device_options(flags.devices));
  const bool coreml = target.format == ShardFormat::coreml;
  if (coreml) {
    options.coreml.packaging = flags.multi_function ? WidthPackaging::functions
                                                    : *parse_enum<WidthPackaging>(flags.widths);
    options.coreml.spec_version = flags.spec_version;
  }
  options.onnx_checksum = !coreml && flags.onnx_checksum;
  options.ane_book =
      flags.compat == "ane-book" && (coreml || !any_has(targets, ShardFormat::coreml));
  if (options.ane_book) keep_layers_whole(options.cuts.budgets);
  return options;
}

// The flags of each target that --target names.
std::vector<PassFlags> split_targets(const PassFlags& flags) {
  std::vector<PassFlags> split;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = flags.target.find(',', begin);
    split.push_back(flags);
    split.back().target = flags.target.substr(begin, end - begin);
  }
  return split;
}

// --chip is for those that have chips, if there is one.
void keep_chip(std::span<const Target> targets, std::span<PassFlags> passes) {
  const auto has_chips = [](const Target& target) { return !target.chips.empty(); };
  if (std::none_of(targets.begin(), targets.end(), has_chips)) return;
  for (size_t i = 0; i < targets.size(); ++i)
    if (!has_chips(targets[i])) passes[i].chip.clear();
}

void add_coreml_flags(CLI::App& command, ExportFlags& flags) {
  command
      .add_option("--widths", flags.widths,
                  "Core ML: a package for each token width, one with functions that share their "
                  "weights, or one whose token dimension is a range")
      ->check(CLI::IsMember({"separate", "functions", "range"}))
      ->capture_default_str();
  command.add_flag("--multi-function", flags.multi_function, "The same as --widths functions")
      ->excludes("--widths");
  command
      .add_option("--spec-version", flags.spec_version,
                  "Core ML: specification version, 6 (iOS 15) to 9 (iOS 18); default: the lowest "
                  "that suffices")
      ->check(CLI::Range(6, 9));
  command
      .add_option("--compat", flags.compat,
                  "Also write what another runtime reads, under its names")
      ->check(CLI::IsMember({"ane-book"}));
}

}  // namespace

Result<std::vector<ExportOptions>> export_options(const ExportFlags& flags) {
  std::vector<PassFlags> passes = split_targets(flags.passes);
  std::vector<Target> targets;
  for (const PassFlags& one : passes) {
    MOEC_ASSIGN(Target target, find_target(one.target));
    targets.push_back(std::move(target));
  }
  const bool several = targets.size() > 1;
  if (several) MOEC_TRY(check_names(targets));
  MOEC_TRY(check_flags(flags, targets));
  keep_chip(targets, passes);
  std::vector<ExportOptions> all;
  for (size_t i = 0; i < targets.size(); ++i) {
    MOEC_ASSIGN(ExportOptions options, target_options(flags, passes[i], targets));
    if (several) options.out += "/" + targets[i].name;
    if (several) options.run.subfolder = targets[i].name;
    all.push_back(std::move(options));
  }
  return all;
}

void add_export_flags(CLI::App& command, ExportFlags& flags) {
  command.add_option("CHECKPOINT", flags.source, "Folder with config.json and safetensors")
      ->required();
  command.add_option("-o,--out", flags.out, "Folder to write")->required();
  add_shard_flags(command, flags.shards);
  add_device_flags(command, flags.devices);
  add_coreml_flags(command, flags);
  command
      .add_option("--layers", flags.layers,
                  "Only the first N layers, to try out a large model: the folder can be checked, "
                  "but neither validated nor run")
      ->check(whole_from(1));
  command
      .add_option("--seeded-weights", flags.seed,
                  "Noise of this seed instead of the checkpoint's weights: for sizes and "
                  "timings. CHECKPOINT may be a config file then")
      ->check(whole_from(0));
  command.add_option("--family-file", flags.family_file,
                     "A family descriptor of your own (models/families/README.md)");
  command
      .add_option("--digest", flags.digest,
                  "Beside XXH3, record this digest of each file in the manifest")
      ->check(CLI::IsMember({"sha256"}));
  command.add_flag("--onnx-checksum", flags.onnx_checksum,
                   "Also write each data file's SHA-1 into ONNX graphs, as `checksum`");
  command
      .add_option(
          "-j,--jobs", flags.jobs,
          "Shards compiled at the same time, each with threads of its own that read, convert and "
          "write its tiles; default: 4, or fewer if --memory asks for it")
      ->check(CLI::Range(1, 256));
  command
      .add_option("--memory", flags.memory,
                  "What the export may take, for all jobs, in MiB or with a unit: 2GB, 512MiB")
      ->capture_default_str();
  command.add_flag("--force", flags.force,
                   "Start anew, in place of what an earlier export left in the folder");
  command.add_flag("-q,--quiet", flags.quiet, "Print errors and warnings only");
  command.add_flag("--json", flags.json, "Print the summary as JSON");
  add_pass_flags(command, flags.passes);
  command.get_option("--target")
      ->description(
          "Target whose rules and preferences apply: a name, or a file NAME.json of yours. Of "
          "several, onnx,ane, each gets a folder of its name in --out; what has the same bytes in "
          "several is read once: with --dtype f16 nearly all");
}

}  // namespace moec
