#include "frontends/cli/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/arguments.h"
#include "frontends/cli/help.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

// A command and the words after its name.
struct Called {
  const CLI::App* command = nullptr;
  std::span<const std::string> words;
};

// Finds the command, descending into subcommands. For an unknown one, the error lists the known
// commands and suggests the nearest; CLI11 would only report that a subcommand is required.
Result<Called> find_command(const CLI::App& app, std::span<const std::string> words) {
  std::vector<std::string> names;
  // The predicate accepts all commands. Without one, CLI11 returns only those that were parsed.
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (names.empty() || words.empty() || words[0].starts_with('-')) return Called{&app, words};
  const std::string& word = words[0];
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (std::find(names.begin(), names.end(), word) == names.end())
    return fail("cli.unknown_command",
                fmt::format("unknown command '{}'{}", word, did_you_mean(word, known)),
                fmt::format("use one of these commands: {}", fmt::join(names, ", ")));
  // The recursion ends at a command without subcommands, at a flag, or after the last word.
  return find_command(*app.get_subcommand(word), words.subspan(1));
}

// CLI11 also reports requests for help and for the version as errors, with exit code 0.
int report_usage(const CLI::App& app, const CLI::ParseError& error, const Called& called,
                 bool json) {
  constexpr int kNoError = 0;
  // exit() prints the help or the version.
  if (error.get_exit_code() == kNoError) return app.exit(error);
  return report_failure(describe_usage(error, *called.command), json);
}

// Adds the commands in the order in which --help lists them and their tasks.
// Each add_… function shares the flags of its command with the callback, because the function
// returns before the command runs.
void add_commands(CLI::App& app, int& exit_code) {
  for (const auto add :
       {add_inspect_command,  add_plan_command,      add_doctor_command,  add_analyze_command,
        add_export_command,   add_calibrate_command, add_upcycle_command, add_prune_command,
        add_opt_command,      add_family_command,    add_check_command,   add_validate_command,
        add_compare_command,  add_confirm_command,   add_report_command,  add_tokenize_command,
        add_run_command,      add_serve_command,     add_route_command,   add_prepack_command,
        add_place_command,    add_split_command,     add_probe_command,   add_trace_command,
        add_simulate_command, add_discover_command})
    add(app, exit_code);
}

// Returns kExitFine if a command ran or CLI11 printed the help or the version. The exit code of the
// command is in `exit_code` of run_cli().
int run_words(CLI::App& app, const std::vector<std::string>& words, bool json) {
  // CLI11 would report a missing subcommand. The list of commands is more helpful.
  if (words.empty()) {
    print_out("{}", app.help());
    return kExitBadInput;
  }
  const Result<Called> called = find_command(app, words);
  if (!called) return report_failure(called.error(), json);
  // Runs before CLI11, whose errors neither suggest a flag nor name the commands that have it.
  if (const Status known = check_arguments(*called->command, called->words); !known)
    return report_failure(known.error(), json);
  try {
    // CLI11 expects the words in reverse order.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, *called, json);
  }
  return kExitFine;
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  CLI::App app{
      "moec compiles a Mixture-of-Experts checkpoint into static graph shards.\n"
      "Exit codes: 0 success, 1 a check or threshold was not met, 2 bad input or usage,\n"
      "3 internal error, 129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM.",
      "moec"};
  app.set_version_flag("--version", MOEC_VERSION);
  // run_words() handles an empty command line before CLI11 sees it.
  app.require_subcommand(1);
  // Callbacks of CLI11 return nothing, so the commands write their exit code here.
  int exit_code = kExitFine;
  add_commands(app, exit_code);
  // Runs after all commands are added, because arrange_help() compares its tables with their flags.
  arrange_help(app);
  const auto given = std::span(argv, static_cast<size_t>(argc));
  const std::vector<std::string> words =
      // argc may be 0, because the caller of a program need not pass its name.
      join_lists(given.subspan(std::min<size_t>(1, given.size())));
  // Searched in the words, because errors of usage occur before a command has parsed its flags.
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  const int usage = run_words(app, words, json);
  // An error of usage means that no command ran, so `exit_code` has no result.
  return usage == kExitFine ? exit_code : usage;
}

}  // namespace moec
