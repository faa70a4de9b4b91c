#include "frontends/cli/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/arguments.h"
#include "frontends/cli/help.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

// A command, and the words behind its name.
struct Called {
  const CLI::App* command = nullptr;
  std::span<const std::string> words;
};

// Names the known commands, and the nearest one, where the first word is none. The library would
// only say that a subcommand is required.
Result<Called> find_command(const CLI::App& app, std::span<const std::string> words) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (names.empty() || words.empty() || words[0].starts_with('-')) return Called{&app, words};
  const std::string& word = words[0];
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (std::find(names.begin(), names.end(), word) == names.end())
    return fail("cli.unknown_command",
                fmt::format("unknown command '{}'{}", word, did_you_mean(word, known)),
                fmt::format("the commands are {}", fmt::join(names, ", ")));
  return find_command(*app.get_subcommand(word), words.subspan(1));
}

// Requests for help and for the version arrive here, too, as errors with exit code 0.
int report_usage(const CLI::App& app, const CLI::ParseError& error, const Called& called,
                 bool json) {
  constexpr int kNoError = 0;
  if (error.get_exit_code() == kNoError) return app.exit(error);
  return report_failure(describe_usage(error, *called.command), json);
}

// In the order in which --help lists the tasks and their commands.
void add_commands(CLI::App& app, int& exit_code) {
  for (const auto add :
       {add_inspect_command,   add_plan_command,     add_analyze_command, add_export_command,
        add_calibrate_command, add_upcycle_command,  add_opt_command,     add_family_command,
        add_check_command,     add_validate_command, add_compare_command, add_confirm_command,
        add_tokenize_command,  add_run_command,      add_serve_command,   add_prepack_command,
        add_place_command,     add_split_command,    add_probe_command,   add_trace_command,
        add_simulate_command,  add_discover_command})
    add(app, exit_code);
}

int run_words(CLI::App& app, const std::vector<std::string>& words, bool json) {
  if (words.empty()) {
    print_out("{}", app.help());
    return kExitBadInput;
  }
  const Result<Called> called = find_command(app, words);
  if (!called) return report_failure(called.error(), json);
  if (const Status known = check_arguments(*called->command, called->words); !known)
    return report_failure(known.error(), json);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // the last word first
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
  app.require_subcommand(1);
  int exit_code = kExitFine;
  add_commands(app, exit_code);
  arrange_help(app);
  const auto given = std::span(argv, static_cast<size_t>(argc));
  const std::vector<std::string> words =
      join_lists(given.subspan(std::min<size_t>(1, given.size())));
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  const int usage = run_words(app, words, json);
  return usage == kExitFine ? exit_code : usage;
}

}  // namespace moec
