// The commands, one file each. An add_… function declares a command and its flags on the app. When
// the app runs the command, its exit code is written to `exit_code`, which must outlive the app.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

void add_inspect_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);
void add_place_command(CLI::App& app, int& exit_code);
void add_export_command(CLI::App& app, int& exit_code);
void add_calibrate_command(CLI::App& app, int& exit_code);
void add_analyze_command(CLI::App& app, int& exit_code);
void add_trace_command(CLI::App& app, int& exit_code);
void add_simulate_command(CLI::App& app, int& exit_code);
void add_discover_command(CLI::App& app, int& exit_code);
void add_prepack_command(CLI::App& app, int& exit_code);
void add_upcycle_command(CLI::App& app, int& exit_code);
void add_prune_command(CLI::App& app, int& exit_code);
void add_split_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_confirm_command(CLI::App& app, int& exit_code);
void add_validate_command(CLI::App& app, int& exit_code);
void add_compare_command(CLI::App& app, int& exit_code);
void add_report_command(CLI::App& app, int& exit_code);
void add_probe_command(CLI::App& app, int& exit_code);
void add_tokenize_command(CLI::App& app, int& exit_code);
void add_run_command(CLI::App& app, int& exit_code);
void add_route_command(CLI::App& app, int& exit_code);
void add_serve_command(CLI::App& app, int& exit_code);
void add_opt_command(CLI::App& app, int& exit_code);
void add_family_command(CLI::App& app, int& exit_code);

}  // namespace moec
