// moec export: compiles a checkpoint into a folder of static shards.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/option_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/source_flag.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/export/export_json.h"
#include "frontends/export/export_model.h"
#include "frontends/export/options/resolve_options.h"
#include "ir/base/byte_text.h"

namespace moec {

namespace {

struct ExportFlags {
  std::string source, out;
  bool force = false, quiet = false, json = false;
  GivenOptions given;
};

// Prints the summary of an export without graphs, whose side files are the weight files and one
// report.
void print_files(const std::string& out, const ExportSummary& summary, double seconds) {
  const std::vector<manifest::FileRef>& files = summary.manifest.side_files;
  print_out("exported {} as {} {} file{} to {}: {}, {:.1f} s ({}/s)\n",
            summary.manifest.model.family, files.size() - 1,
            enum_name(summary.manifest.build.format), files.size() == 2 ? "" : "s", out,
            decimal_bytes(summary.file_bytes), seconds,
            decimal_bytes(static_cast<double>(summary.file_bytes) / std::max(seconds, 1e-3)));
  if (summary.parts_kept > 0)
    print_out("{} files were kept from an earlier run\n", summary.parts_kept);
  // The weight files come before the report, so the first file is the model or its first part.
  print_out("next: moec inspect {}/{}\n", out, files.front().path);
}

void print_top_k(const Manifest& manifest) {
  if (manifest.top_k) {
    print_out("top-k variants: {}\n", describe_forms(manifest));
    for (const manifest::TopKVariant& form : manifest.top_k->forms)
      print_out("  {:<14} {} of weights and {} MACs per token\n", form.name,
                decimal_bytes(form.bytes_active), form.macs_active);
    // The checkpoint's own variant comes first if it is listed, so only the first one is checked.
    if (!is_own(*manifest.top_k, manifest.top_k->forms.front()))
      print_out("INEXACT: no variant has the checkpoint's own top-k, {}\n", manifest.top_k->own);
  }
  if (manifest.capacity)
    print_out("INEXACT: with capacity factor {}, experts drop tokens in steps of several tokens\n",
              manifest.capacity->factor);
}

// The rate counts the bytes of files, because it describes the speed of writing. The minimum time
// prevents a division by zero.
void print_summary(const std::string& out, const ExportSummary& summary, double seconds) {
  const Manifest& manifest = summary.manifest;
  print_out("exported {} as {} shards to {}: {} of weights in {} of files, {:.1f} s ({}/s)\n",
            manifest.model.family, manifest.shards.size(), out, decimal_bytes(summary.weight_bytes),
            decimal_bytes(summary.file_bytes), seconds,
            decimal_bytes(static_cast<double>(summary.file_bytes) / std::max(seconds, 1e-3)));
  if (summary.parts_kept > 0)
    print_out("{} tables and shards were kept from an earlier run\n", summary.parts_kept);
  if (manifest.build.seeded) print_out("the weights are seeded noise (--seeded-weights)\n");
  if (manifest.model.left_out_layers > 0)
    print_out("a truncated model: the last {} layers are left out (--layers)\n",
              manifest.model.left_out_layers);
  print_top_k(manifest);
  if (manifest.build.routing == "full_softmax")
    print_out("routing {} is INEXACT: every expert gets a weight, so none is skipped\n",
              manifest.build.routing);
  print_out("next: moec check {}\n", out);
}

// A share has no manifest yet.
void print_share(const OutputOptions& output, const ExportSummary& summary, double seconds) {
  const JobShare& share = *output.share;
  print_out("exported part {}/{} of {}: {} shards with {} of weights, {:.1f} s\n", share.index,
            share.count, output.folder, summary.manifest.shards.size(),
            decimal_bytes(summary.weight_bytes), seconds);
  if (summary.parts_kept > 0)
    print_out("{} tables and shards were kept from an earlier run\n", summary.parts_kept);
  print_out("next: the same command with --join instead of --part, after all parts\n");
}

void print_export(const FinishedExport& finished, bool quiet) {
  const auto& [out, targets, summaries, seconds] = finished;
  for (size_t i = 0; i < targets.size(); ++i) {
    // Warnings are printed even with --quiet; only notes are omitted.
    print_notes(summaries[i].notes, quiet);
    if (quiet) continue;
    if (targets[i].output.share) {
      print_share(targets[i].output, summaries[i], seconds);
      continue;
    }
    const bool has_graphs = summaries[i].manifest.has_graphs();
    (has_graphs ? print_summary : print_files)(targets[i].output.folder, summaries[i], seconds);
  }
  // Shared weights are read once, which only the total of all targets shows.
  if (!quiet && targets.size() > 1)
    print_out("{} of the checkpoint were read for {} targets\n",
              decimal_bytes(bytes_read(summaries)), targets.size());
}

// Several targets form one export: if one target fails, no folder is finished.
int run_export(const ExportFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  if (const Status source = require_checkpoint(flags.source); !source)
    return report_failure(source.error(), flags.json);
  // Sets the options that have no option row. They hold for every target.
  ExportOptions base;
  base.source.path = flags.source;
  base.output.folder = flags.out;
  base.output.force = flags.force;
  // After the check of the source, whose errors are more basic.
  auto targets = resolve_options(flags.given, base);
  if (!targets) return report_failure(targets.error(), flags.json);
  const StopSignals signals;
  Progress progress("export", flags.quiet);
  // export_targets() requires equal callbacks for all targets.
  for (ExportOptions& options : *targets) {
    options.callbacks.stop = [] { return StopSignals::caught() != 0; };
    options.callbacks.progress = progress.callback();
  }
  auto summaries = export_targets(*targets);
  progress.finish();
  if (!summaries) return report_stopped(summaries.error(), kExportInterrupted, flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const FinishedExport finished{flags.out, *targets, *summaries, seconds.count()};
  if (flags.json)
    print_json(export_json(finished));
  else
    print_export(finished, flags.quiet);
  return kExitFine;
}

}  // namespace

void add_export_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "export", "Compile a checkpoint into a folder of static shards with a manifest");
  auto flags = std::make_shared<ExportFlags>();
  add_source(*command, "CHECKPOINT", flags->source,
             "Checkpoint folder with config.json and .safetensors files, or a GGUF file")
      ->required();
  command
      ->add_option("-o,--out", flags->out,
                   "Folder to write: missing, empty, or an interrupted export with the same inputs "
                   "and options, which is resumed")
      ->required();
  add_option_flags(*command, OptionUsers::exporting, flags->given);
  command->add_flag("--force", flags->force, "Start over and replace an earlier export in --out");
  command->add_flag("-q,--quiet", flags->quiet, "Print only errors and warnings");
  command->add_flag("--json", flags->json, "Print the summary as JSON");
  command->footer("Example: moec export models/tinymoe --out out/tinymoe --tokens 1,16");
  command->callback([flags, &exit_code] { exit_code = run_export(*flags); });
}

}  // namespace moec
