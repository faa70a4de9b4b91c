// moec export: a checkpoint becomes a folder of static shards.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/weights/weight_reader.h"
#include "frontends/cli/cli.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/device_flags.h"
#include "frontends/cli/export_model.h"
#include "frontends/cli/find_target.h"
#include "frontends/cli/json_output.h"
#include "frontends/cli/number_check.h"
#include "frontends/cli/pass_flags.h"
#include "frontends/cli/progress.h"
#include "frontends/cli/shard_flags.h"
#include "frontends/cli/stop_signals.h"

namespace moec {
namespace {

struct ExportFlags {
  std::string source, out, family_file, compat, digest, widths = "separate";
  int64_t layers = 0;
  std::optional<int> jobs;
  int spec_version = 0;
  std::optional<uint64_t> seed;
  bool multi_function = false, onnx_checksum = false;
  bool force = false, quiet = false, json = false;
  uint64_t memory_mib = 256;
  DeviceFlags devices;
  ShardFlags shards;
  PassFlags passes;
};

// Flags that only make sense with some target are refused with the others, never passed over.
Status check_flags(const ExportFlags& flags, const Target& target) {
  const bool coreml = target.format == ShardFormat::coreml;
  if (!coreml && (flags.multi_function || flags.widths != "separate" || flags.spec_version != 0))
    return fail("export.flags",
                fmt::format("--multi-function, --widths and --spec-version are for Core ML "
                            "packages; target {} has none",
                            target.name),
                "give --target ane, or leave them out");
  if (coreml && flags.onnx_checksum)
    return fail("export.flags", "--onnx-checksum is for ONNX files; Core ML packages have none",
                "leave it out; --digest sha256 is for files of either kind");
  return {};
}

// The book's runtimes know only whole MoE layers, whatever their size.
void keep_layers_whole(Budgets& budgets) {
  for (const ShardKind kind : {ShardKind::moe, ShardKind::experts})
    if (Budget& budget = budgets[static_cast<size_t>(kind)]; !budget.asked) budget = {};
}

// Several shards under way keep the disk busy while one is begun or flushed to it: of what a disk
// gives when read and written at once, `--jobs 2` took 0.82, 3 took 0.92, 4 and 6 took 0.95 (4 GB
// to ONNX, medians of four rounds). Fewer where each would get too little memory to read at speed.
int default_jobs(uint64_t memory_bytes) {
  constexpr int kMostJobs = 4;
  constexpr uint64_t kEnoughBytes = uint64_t{16} << 20;
  for (int jobs = kMostJobs; jobs > 1; --jobs)
    if (const auto reading = export_reader(memory_bytes, jobs);
        reading && reading->memory_bytes >= kEnoughBytes)
      return jobs;
  return 1;
}

Result<ExportOptions> export_options(const ExportFlags& flags) {
  ExportOptions options;
  options.source = flags.source;
  options.out = flags.out;
  if (!flags.family_file.empty()) options.family_file = flags.family_file;
  if (is_target_file(flags.passes.target)) options.target_file = flags.passes.target;
  options.chip = flags.passes.chip;
  MOEC_ASSIGN(options.passes, pass_options(flags.passes));
  MOEC_ASSIGN(options.run, run_options(flags.passes));
  MOEC_TRY(check_flags(flags, options.passes.target));
  MOEC_ASSIGN(options.build, build_options(flags.shards, options.passes));
  options.kv = flags.shards.kv;
  MOEC_ASSIGN(options.cuts, cut_wishes(flags.shards, options.passes.target));
  MOEC_ASSIGN(options.devices, device_wishes(flags.devices));
  options.coreml.packaging =
      flags.multi_function ? WidthPackaging::functions : *parse_enum<WidthPackaging>(flags.widths);
  options.coreml.spec_version = flags.spec_version;
  options.weight_seed = flags.seed;
  options.ane_book = flags.compat == "ane-book";
  if (options.ane_book) keep_layers_whole(options.cuts.budgets);
  options.layers = flags.layers;
  options.sha256 = flags.digest == "sha256";
  options.onnx_checksum = flags.onnx_checksum;
  options.jobs = flags.jobs ? *flags.jobs : default_jobs(flags.memory_mib << 20);
  options.memory_bytes = flags.memory_mib << 20;
  options.force = flags.force;
  options.quiet = flags.quiet || flags.json;
  return options;
}

void print_summary(const ExportFlags& flags, const ExportSummary& summary, double seconds) {
  const Manifest& manifest = summary.manifest;
  if (flags.json) {
    nlohmann::ordered_json report = {{"ok", true},
                                     {"out", flags.out},
                                     {"family", manifest.model.family},
                                     {"shards", manifest.shards.size()},
                                     {"bytes_read", summary.bytes_read},
                                     {"weight_bytes", summary.weight_bytes},
                                     {"file_bytes", summary.file_bytes},
                                     {"parts_kept", summary.parts_kept},
                                     {"seconds", seconds},
                                     {"exact_routing", manifest.build.exact},
                                     {"diagnostics", to_json(summary.notes)}};
    fmt::print("{}\n", json_text(report));
    return;
  }
  print_notes(summary.notes);
  if (flags.quiet) return;
  fmt::print("exported {} as {} shards to {}: {} of weights in {} of files, {:.1f} s ({}/s)\n",
             manifest.model.family, manifest.shards.size(), flags.out,
             human_bytes(static_cast<double>(summary.weight_bytes)),
             human_bytes(static_cast<double>(summary.file_bytes)), seconds,
             human_bytes(static_cast<double>(summary.file_bytes) / std::max(seconds, 1e-3)));
  if (summary.parts_kept > 0)
    fmt::print("{} tables and shards were finished by an earlier run and are as they were\n",
               summary.parts_kept);
  if (manifest.build.seeded) fmt::print("the weights are noise (--seeded-weights)\n");
  if (manifest.model.left_out_layers > 0)
    fmt::print("a trial: the last {} layers are left out (--layers)\n",
               manifest.model.left_out_layers);
  if (!manifest.build.exact)
    fmt::print("routing form {} is INEXACT: all experts are weighed, none is left out\n",
               manifest.build.routing);
  fmt::print("next: moec check {}\n", flags.out);
}

bool was_interrupted(const Diagnostics& failure) {
  return std::any_of(failure.begin(), failure.end(),
                     [](const Diagnostic& found) { return found.code == kExportInterrupted; });
}

int run_export(const ExportFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  auto options = export_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const StopSignals signals;
  options->stop = [] { return StopSignals::caught() != 0; };
  auto summary = export_model(*options);
  if (!summary) {
    const int code = report_failure(summary.error(), flags.json);
    return was_interrupted(summary.error()) ? exit_code_of(StopSignals::caught()) : code;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_summary(flags, *summary, seconds.count());
  return kExitFine;
}

}  // namespace

static void add_coreml_flags(CLI::App& command, ExportFlags& flags) {
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

void add_export_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("export", "Compile a checkpoint into static shards");
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("CHECKPOINT", flags->source, "Folder with config.json and safetensors")
      ->required();
  command->add_option("-o,--out", flags->out, "Folder to write")->required();
  add_shard_flags(*command, flags->shards);
  add_device_flags(*command, flags->devices);
  add_coreml_flags(*command, *flags);
  command
      ->add_option("--layers", flags->layers,
                   "Only the first N layers, to try out a large model: the folder can be checked, "
                   "but neither validated nor run")
      ->check(whole_from(1));
  command
      ->add_option("--seeded-weights", flags->seed,
                   "Noise of this seed instead of the checkpoint's weights: for sizes and "
                   "timings. CHECKPOINT may be a config file then")
      ->check(whole_from(0));
  command->add_option("--family-file", flags->family_file,
                      "A family descriptor of your own (models/families/README.md)");
  command
      ->add_option("--digest", flags->digest,
                   "Beside XXH3, record this digest of each file in the manifest")
      ->check(CLI::IsMember({"sha256"}));
  command->add_flag("--onnx-checksum", flags->onnx_checksum,
                    "Also write each data file's SHA-1 into ONNX graphs, as `checksum`");
  command
      ->add_option("-j,--jobs", flags->jobs,
                   "Shards compiled at the same time; default: 4, or fewer if --memory asks for it")
      ->check(CLI::Range(1, 256));
  command->add_option("--memory", flags->memory_mib, "MiB that the export may take, for all jobs")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 24))
      ->capture_default_str();
  command->add_flag("--force", flags->force,
                    "Start anew, in place of what an earlier export left in the folder");
  command->add_flag("-q,--quiet", flags->quiet, "Print errors and warnings only");
  command->add_flag("--json", flags->json, "Print the summary as JSON");
  add_pass_flags(*command, flags->passes);
  command->footer("Example: moec export models/tinymoe --out out/tinymoe --tokens 1,16");
  command->callback([flags, &exit_code] { exit_code = run_export(*flags); });
}

}  // namespace moec
