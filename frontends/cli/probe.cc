// moec probe: chooses the group of experts that serves a text, based on its first tokens.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/compare/probe_groups.h"

namespace moec {
namespace {

struct ProbeFlags {
  ProbeOptions options;
  std::string score;
  SessionFlags session;
  bool write = false, quiet = false, json = false;
};

Result<ProbeReport> probe_named(const ProbeFlags& flags) {
  ProbeOptions options = flags.options;
  MOEC_TRY(require_export(options.model));
  // Flags are checked before the model is opened.
  MOEC_ASSIGN(options.session, session_options(flags.session));
  // Absent if the flag is not given: the default depends on the presence of --groups.
  options.score = parse_enum<ProbeScore>(flags.score);
  Progress progress("probe", flags.quiet, "documents");
  // The job reports totals, but Progress counts increments.
  uint64_t told = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    progress.advance(done - std::exchange(told, done), total, "documents");
  };
  auto report = probe_groups(options);
  progress.finish();
  // Only a complete measurement replaces the table of the export.
  if (report && flags.write) MOEC_TRY(write_probe_table(*report, options.model));
  return report;
}

int run_probe(const ProbeFlags& flags) {
  const auto report = probe_named(flags);
  if (!report) return report_failure(report.error(), flags.json);
  flags.json ? print_json(probe_json(*report)) : print_out("{}", probe_text(*report));
  return kExitFine;
}

void add_document_flags(CLI::App& command, ProbeOptions& options) {
  CLI::Option* prompt =
      command.add_option("--prompt", options.prompt, "A text for which to choose a group");
  command
      .add_option("--prompts", options.prompts,
                  "A suite of prompts on which to measure the choice: default, or a file "
                  "(frontends/jobs/analyze/README.md)")
      ->excludes(prompt);
  command
      .add_option("--text", options.texts,
                  "Text files on which to measure the choice, one document each")
      ->excludes(prompt)
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--tokens", options.tokens_file, "A file of token ids instead of text")
      ->excludes(prompt);
}

}  // namespace

void add_probe_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "probe",
      "Choose the group of experts that serves a text, based on the first tokens of the text");
  auto flags = std::make_shared<ProbeFlags>();
  ProbeOptions& options = flags->options;
  command->add_option("OUT", options.model, "An exported folder")->required();
  command->add_option("--groups", options.groups,
                      "A JSON file of groups of experts, e.g. from moec place (default: the groups "
                      "in the table that --write stored in the export)");
  command
      ->add_option(
          "--score", flags->score,
          "Score by which a group is chosen. mass: its experts' share of the first tokens' routing "
          "weights; table: its log-probability in the export's table, for the category with the "
          "nearest routing (default: mass with --groups, else table)")
      ->check(one_of({"mass", "table"}));
  add_document_flags(*command, options);
  command
      ->add_option("--prefill", options.prefill,
                   "Number of first tokens from which the group is chosen (default: the table's "
                   "number, or 32)")
      ->check(whole_from(1));
  command
      ->add_option("--window", options.window,
                   "Number of tokens to run per document, at most the export's context")
      ->check(whole_from(1))
      ->capture_default_str();
  add_session_flags(*command, flags->session);
  command->add_flag("--write", flags->write,
                    "Store the measurement in the export as its table, probe.json");
  command->add_flag("-q,--quiet", flags->quiet, "Print no progress");
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->footer("Example: moec probe out/tinymoe --groups placement.json --prompts default");
  command->callback([flags, &exit_code] { exit_code = run_probe(*flags); });
}

}  // namespace moec
