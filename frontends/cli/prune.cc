// moec prune: writes a checkpoint with fewer experts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/family_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/export/options/option_bytes.h"
#include "frontends/jobs/prune/prune_model.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

struct PruneFlags {
  PruneOptions options;
  std::string by = "saliency", max_shard;
  bool quiet = false, json = false;
};

Result<PruneOptions> prune_options(const PruneFlags& flags) {
  PruneOptions options = flags.options;
  MOEC_TRY(require_checkpoint(options.source));
  if (options.output.folder.empty() && !options.dry_run)
    return fail("cli.missing", "--out is required", "pass --out FOLDER or --dry-run");
  if (options.mask.empty() && (options.keep == 0 || options.profile.empty()))
    return fail("cli.missing", "--keep and --profile are required",
                "pass --keep N with the profile.json of moec analyze, or name the experts with "
                "--expert-mask");
  options.by = *parse_enum<PruneScore>(flags.by);
  if (flags.max_shard.empty()) return options;
  MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--max-shard-mb", flags.max_shard));
  options.output.max_shard_bytes = static_cast<uint64_t>(bytes);
  return options;
}

double smaller_percent(uint64_t before, uint64_t after) {
  return before == 0 ? 0 : 100 - 100 * static_cast<double>(after) / static_cast<double>(before);
}

void print_scores(const PruneChoice& choice) {
  if (choice.overlaps.empty()) return;
  print_out("{:<10}{:>14}{:>20}\n", "score", "same experts", "fewest in a layer");
  for (const ScoreOverlap& overlap : choice.overlaps)
    print_out("{:<10}{:>12.1f} %{:>12} in L{}\n", enum_name(overlap.by), 100 * overlap.same,
              fmt::format("{} of {}", overlap.fewest, choice.count), overlap.fewest_layer);
  if (choice.selections)
    print_out("the kept experts have {:.1f} % of the selections{}\n", 100 * *choice.selections,
              choice.mass ? fmt::format(" and {:.1f} % of the routing mass", 100 * *choice.mass)
                          : std::string());
}

// Each layer has other experts, so the mask of a deep model would fill the screen.
std::string mask_text(const ExpertSets& kept) {
  constexpr size_t kMost = 80, kFirst = 40;
  const std::string mask = to_string(kept);
  if (mask.size() <= kMost) return "'" + mask + "'";
  return fmt::format("'{}…', which --json prints", mask.substr(0, kFirst));
}

void print_prune(const PruneReport& report, double seconds) {
  const PrunePlan& plan = report.plan;
  print_out("{}: {} of {} experts in each of {} layers, {} per token\n", plan.result.family,
            plan.result.moe.experts, plan.source.moe.experts, plan.choice.kept.layers.size(),
            plan.result.moe.routing.top_k);
  print_scores(plan.choice);
  if (plan.routing == KeptRouting::masked)
    print_out("equals the source with --expert-mask {}\n", mask_text(plan.choice.kept));
  else
    print_out("kept experts: {}\n", mask_text(plan.choice.kept));
  print_out("experts {} instead of {} ({:.1f} % smaller)\n", decimal_bytes(plan.after.experts),
            decimal_bytes(plan.before.experts),
            smaller_percent(plan.before.experts, plan.after.experts));
  const std::string all = decimal_bytes(plan.after.all);
  if (report.dry_run)
    print_out("{} tensors, {} would be written\n", plan.tensors.size(), all);
  else
    print_out("{} tensors, {} in {}, {:.1f} s\n", plan.tensors.size(), all, report.out, seconds);
}

int run_prune(const PruneFlags& flags) {
  // The reported time includes the checks of the source and the flags.
  const auto start = std::chrono::steady_clock::now();
  auto options = prune_options(flags);
  if (!options) return report_failure(options.error(), flags.json);
  const StopSignals signals;
  Progress progress("prune", flags.quiet);
  options->hooks.stop = [] { return StopSignals::caught() != 0; };
  options->hooks.progress = progress.callback();
  const auto report = prune_model(*options);
  progress.finish();
  if (!report) return report_stopped(report.error(), kPrune.interrupted(), flags.json);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (flags.json) {
    print_json(prune_json(*report, seconds.count()));
  } else {
    print_notes(report->plan.notes, flags.quiet);
    print_prune(*report, seconds.count());
  }
  return kExitFine;
}

void add_choice_flags(CLI::App& command, PruneFlags& flags) {
  CLI::Option* keep =
      command.add_option("--keep", flags.options.keep, "Number of experts that each layer keeps");
  keep->check(whole_from(1));
  command
      .add_option("--by", flags.by,
                  "Score by which a layer keeps its best experts: saliency (as in REAP), mass, "
                  "count or norm")
      ->check(one_of_enum<PruneScore>())
      ->capture_default_str();
  command.add_option("--profile", flags.options.profile,
                     "The profile.json from moec analyze, or its folder");
  command
      .add_option("--expert-mask", flags.options.mask,
                  "Experts to keep, e.g. L0:0-11;L1:2-13, or @FILE with such text; the same number "
                  "in each layer")
      ->excludes(keep);
}

}  // namespace

void add_prune_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "prune", "Write a checkpoint without the least important experts of each layer");
  auto flags = std::make_shared<PruneFlags>();
  command->add_option("CHECKPOINT", flags->options.source, "A checkpoint folder")->required();
  add_choice_flags(*command, *flags);
  add_family_options(*command, flags->options.family);
  CheckpointOutput& output = flags->options.output;
  command->add_option("-o,--out", output.folder, "Folder of the new checkpoint");
  command->add_option("--max-shard-mb", flags->max_shard,
                      "Maximum size of a file, in MiB or with a unit, e.g. 2GB (default: 5GiB)");
  command->add_flag("--force", output.force, "Replace an earlier result in the folder");
  command->add_flag("--dry-run", flags->options.dry_run, "Plan and report only; write nothing");
  command->add_flag("-q,--quiet", flags->quiet, "Print no progress and no notes");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec prune qwen3-30b-a3b --keep 96 --profile analysis --out pruned");
  command->callback([flags, &exit_code] { exit_code = run_prune(*flags); });
}

}  // namespace moec
