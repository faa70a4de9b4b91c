#include "frontends/cli/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "frontends/cli/commands.h"
#include "frontends/cli/print/findings.h"
#include "ir/base/nearest.h"

namespace moec {

// Names the known commands, and the nearest one. The library would only say that a subcommand is
// required.
static Status check_command(const CLI::App& app, std::span<const char* const> words) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (names.empty() || words.empty() || *words[0] == '-') return {};
  const std::string word = words[0];
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (std::find(names.begin(), names.end(), word) == names.end())
    return fail("cli.unknown_command",
                fmt::format("unknown command '{}'{}", word, did_you_mean(word, known)),
                fmt::format("the commands are {}", fmt::join(names, ", ")));
  return check_command(*app.get_subcommand(word), words.subspan(1));
}

// Reports what the library found wrong with the arguments. Requests for help and for the version
// arrive here, too, as errors with exit code 0.
static int report_usage(const CLI::App& app, const CLI::ParseError& error, bool json) {
  constexpr int kNoError = 0;
  if (json && error.get_exit_code() != kNoError)
    return report_failure({{Severity::error,
                            "cli.usage",
                            error.what(),
                            "see moec --help and moec COMMAND --help",
                            {}}},
                          true);
  return app.exit(error) == kNoError ? kExitFine : kExitBadInput;
}

int run_cli(int argc, const char* const* argv) {
  CLI::App app{
      "moec compiles a Mixture-of-Experts checkpoint into static graph shards.\n"
      "Exit codes: 0 success, 1 a check or threshold was not met, 2 bad input or usage,\n"
      "3 internal error, 130 and 143 stopped by SIGINT and SIGTERM."};
  app.set_version_flag("--version", MOEC_VERSION);
  app.require_subcommand(1);
  int exit_code = kExitFine;
  add_inspect_command(app, exit_code);
  add_plan_command(app, exit_code);
  add_export_command(app, exit_code);
  add_check_command(app, exit_code);
  add_validate_command(app, exit_code);
  add_run_command(app, exit_code);
  add_opt_command(app, exit_code);
  add_family_command(app, exit_code);
  const auto words = std::span(argv, static_cast<size_t>(argc)).subspan(1);
  const bool json =
      std::find(words.begin(), words.end(), std::string_view("--json")) != words.end();
  if (const Status known = check_command(app, words); !known)
    return report_failure(known.error(), json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, json);
  }
  return exit_code;
}

}  // namespace moec
