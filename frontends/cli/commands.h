// What the commands share. Each command is one file with one add_… function: it declares its flags
// on the app and leaves the exit code of its run in `exit_code`.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

void add_inspect_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app, int& exit_code);
void add_export_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_validate_command(CLI::App& app, int& exit_code);
void add_run_command(CLI::App& app, int& exit_code);
void add_opt_command(CLI::App& app, int& exit_code);
void add_family_command(CLI::App& app, int& exit_code);

}  // namespace moec
