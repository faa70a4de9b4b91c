// moec export: a checkpoint becomes a folder of static shards.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/cli.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/export_model.h"
#include "frontends/cli/pass_flags.h"
#include "frontends/cli/progress.h"

namespace moec {
namespace {

struct ExportFlags {
  std::string source, out, family_file, dtype = "f32";
  std::vector<int64_t> tokens = {1};
  int64_t context = 0, experts_per_shard = 0, head_slices = 1;
  int jobs = 1;
  bool force = false, quiet = false, json = false;
  PassFlags passes;
};

Result<ExportOptions> export_options(const ExportFlags& flags) {
  ExportOptions options;
  options.source = flags.source;
  options.out = flags.out;
  if (!flags.family_file.empty()) options.family_file = flags.family_file;
  MOEC_ASSIGN(options.passes, pass_options(flags.passes));
  MOEC_ASSIGN(options.run, run_options(flags.passes));
  options.build.dtype = *parse_dtype(flags.dtype);
  options.build.layout =
      options.passes.target.projection == ProjectionForm::conv ? Layout::channels : Layout::rows;
  options.build.tokens = flags.tokens;
  std::sort(options.build.tokens.begin(), options.build.tokens.end());
  options.build.context = flags.context;
  options.build.cache = options.passes.target.has_state ? CacheForm::blend : CacheForm::append;
  options.build.host_routing = options.passes.routing == RoutingForm::host;
  options.build.experts_per_shard = flags.experts_per_shard;
  options.build.head_slices = flags.head_slices;
  options.jobs = flags.jobs;
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
                                     {"seconds", seconds},
                                     {"exact_routing", manifest.build.exact},
                                     {"diagnostics", to_json(summary.notes)}};
    fmt::print("{}\n", report.dump(2));
    return;
  }
  print_notes(summary.notes);
  if (flags.quiet) return;
  fmt::print("exported {} as {} shards to {}: {} of weights in {} of files, {:.1f} s ({}/s)\n",
             manifest.model.family, manifest.shards.size(), flags.out,
             human_bytes(static_cast<double>(summary.weight_bytes)),
             human_bytes(static_cast<double>(summary.file_bytes)), seconds,
             human_bytes(static_cast<double>(summary.file_bytes) / std::max(seconds, 1e-3)));
  if (!manifest.build.exact)
    fmt::print("routing form {} is INEXACT: all experts are weighed, none is left out\n",
               manifest.build.routing);
  fmt::print("next: moec check {}\n", flags.out);
}

int run_export(const ExportFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  auto options = export_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  auto summary = export_model(*options);
  if (!summary) return report_failure(summary.error(), flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_summary(flags, *summary, seconds.count());
  return kExitFine;
}

}  // namespace

void add_export_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("export", "Compile a checkpoint into static shards");
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("CHECKPOINT", flags->source, "Folder with config.json and safetensors")
      ->required();
  command->add_option("-o,--out", flags->out, "Folder to write")->required();
  command
      ->add_option("--tokens", flags->tokens, "Static token widths, e.g. 1,64: decode and prefill")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--context", flags->context,
                   "Rows of the KV cache (default: the model's positions, at most 2048)")
      ->check(CLI::PositiveNumber);
  command->add_option("--dtype", flags->dtype, "Element type of weights and activations")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->capture_default_str();
  command
      ->add_option("--experts-per-shard", flags->experts_per_shard,
                   "With --routing host: experts in a group (default: all)")
      ->check(CLI::PositiveNumber);
  command->add_option("--head-slices", flags->head_slices, "Vocabulary slices of the head")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--family-file", flags->family_file,
                      "A family descriptor of your own (models/families/README.md)");
  command->add_option("-j,--jobs", flags->jobs, "Shards compiled at the same time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_flag("--force", flags->force, "Replace an earlier export in the folder");
  command->add_flag("-q,--quiet", flags->quiet, "Print errors and warnings only");
  command->add_flag("--json", flags->json, "Print the summary as JSON");
  add_pass_flags(*command, flags->passes);
  command->footer("Example: moec export models/tinymoe --out out/tinymoe --tokens 1,16");
  command->callback([flags, &exit_code] { exit_code = run_export(*flags); });
}

}  // namespace moec
