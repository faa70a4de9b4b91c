// moec split: splits a GGUF model or an export into one package per node.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/split_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/split/split_export.h"
#include "frontends/jobs/split/split_model.h"
#include "frontends/jobs/split/split_report.h"
#include "ir/base/byte_text.h"

namespace moec {

namespace {

void print_node(const SplitReport& report, const NodePlan& node) {
  print_out("{:<16} {:>6} of {:<5} {:<12} {:>16} {:>16}\n", node.node.name, node.node.count,
            report.experts, enum_name(report.routing_of(node)), node.experts.layout.file_bytes,
            // Includes the trunk, which every node needs, although the folder has it only once.
            report.plan.bytes_of(node));
}

// Prints one line per node with its experts and bytes, then the totals.
void print_split(const SplitReport& report, double seconds, bool quiet) {
  print_notes(report.notes, quiet);
  print_out("{:<16} {:>15} {:<12} {:>16} {:>16}\n", "node", "experts/layer", "routing",
            "experts' bytes", "bytes in all");
  for (const NodePlan& node : report.plan.nodes) print_node(report, node);
  const uint64_t trunk = report.plan.trunk.layout.file_bytes;
  print_out("trunk, shared by all: {} bytes ({})\n", trunk, decimal_bytes(trunk));
  // Counts the trunk once, unlike the last column of the table.
  const uint64_t unique = report.plan.unique_bytes();
  const std::string bytes = decimal_bytes(unique);
  if (report.dry_run)
    print_out("{} bytes ({}) would be written\n", unique, bytes);
  else
    print_out("{} bytes ({}) in {}, {:.1f} s\n", unique, bytes, report.out, seconds);
}

// Prints the nodes that change, and the number of files of each origin.
void print_update(const SplitUpdate& update, bool dry_run) {
  for (const NodeUpdate& node : update.nodes) {
    const std::string gained = to_string(node.gained), lost = to_string(node.lost);
    print_out("{}: {}{}{}\n", node.name,
              node.is_new    ? "new"
              : node.changed ? "changed"
                             : "unchanged",
              gained.empty() || node.is_new ? "" : "; gains " + gained,
              lost.empty() ? "" : "; loses " + lost);
  }
  for (const std::string& name : update.removed) print_out("{}: not in the new split\n", name);
  print_out("{} files of {} {} kept, {} linked to the export's, {} copied\n", update.kept,
            update.folder, dry_run ? "would be" : "are", update.linked, update.copied);
}

void print_split(const ExportSplit& split, double seconds, bool quiet) {
  print_notes(split.notes, quiet);
  print_out("{:<16} {:>8} {:>16} {:>16}\n", "node", "layers", "experts' bytes", "bytes in all");
  for (const ExportNode& node : split.nodes)
    print_out("{:<16} {:>8} {:>16} {:>16}\n", node.name,
              fmt::format("{}-{}", node.manifest.first_layer(), node.manifest.end_layer() - 1),
              node.expert_bytes(), node.bytes());
  print_out("trunk, shared by all: {} bytes ({})\n", split.trunk_bytes(),
            decimal_bytes(split.trunk_bytes()));
  if (split.update) print_update(*split.update, split.dry_run);
  const std::string bytes = decimal_bytes(split.unique_bytes());
  if (split.dry_run)
    print_out("{} bytes ({}) would be in the nodes\n", split.unique_bytes(), bytes);
  else
    print_out("{} bytes ({}) in {}, {}, {:.1f} s\n", split.unique_bytes(), bytes, split.out,
              // Links need no further space on the disk. Files are copied if the file system has no
              // hard links.
              split.linked ? "linked to the export's files" : "copied", seconds);
}

// Prints the result of a split that started at `start`. Returns the exit code.
// Exports and GGUF models have different reports, but the same JSON and print functions by
// overloading.
template <class Report>
int show(const Result<Report>& report, std::chrono::steady_clock::time_point start,
         const SplitFlags& flags) {
  if (!report) return report_stopped(report.error(), kSplitInterrupted, flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  flags.json ? print_json(split_json(*report, seconds.count()))
             : print_split(*report, seconds.count(), flags.quiet);
  return kExitFine;
}

int run_split(const SplitFlags& flags) {
  if (const Status given = check_split_flags(flags); !given)
    return report_failure(given.error(), flags.json);
  SplitOptions options = flags.options;
  const StopSignals signals;
  Progress progress("split", flags.quiet);
  options.stop = [] { return StopSignals::caught() != 0; };
  options.progress = progress.callback();
  const auto start = std::chrono::steady_clock::now();
  // An export is split by whole shards, a GGUF model within the tensors of its experts.
  if (is_export(options.source)) {
    const Result<ExportSplit> split = split_export(options);
    progress.finish();
    return show(split, start, flags);
  }
  const Result<SplitReport> report = split_model(options);
  progress.finish();
  return show(report, start, flags);
}

}  // namespace

void add_split_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "split",
      "Split a GGUF model or an export into one package per node; all packages share its trunk");
  auto flags = std::make_shared<SplitFlags>();
  add_split_flags(*command, *flags);
  command->footer("Example: moec split model.gguf --groups 4 --out nodes");
  command->callback([flags, &exit_code] { exit_code = run_split(*flags); });
}

}  // namespace moec
