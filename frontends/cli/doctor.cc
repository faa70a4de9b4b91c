// moec doctor: measures this machine for the forecast of moec plan.
#include "frontends/jobs/doctor/doctor.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cpu/cpu_engine.h"
#include "backends/files/output_file.h"
#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/output_apart.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

struct DoctorFlags {
  MeasureOptions options;
  UserOutput out{.flag = "--out"};
  bool json = false;
};

Status require_disk_folder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  return fail("doctor.folder", "--folder is not a folder",
              "pass an existing folder on the disk that will contain the exports",
              {.file = folder});
}

Status measure(const DoctorFlags& flags) {
  MOEC_TRY(require_disk_folder(flags.options.folder));
  // Before the measurement, so that a refused file costs no time. There is no source, so the file
  // may lie anywhere.
  MOEC_TRY(check_user_output(flags.out, ""));
  MeasureOptions options = flags.options;
  options.stop = [] { return StopSignals::caught() != 0; };
  MOEC_ASSIGN(const DeviceProfile profile, measure_device(options));
  if (!flags.out.path.empty())
    MOEC_TRY(write_user_file(flags.out.path, device_profile_text(profile)));
  if (flags.json)
    print_json(report_json(true, device_profile_json(profile)));
  else
    print_out("{}", device_profile_table(profile));
  return {};
}

int run_doctor(const DoctorFlags& flags) {
  const StopSignals signals;
  const Status status = measure(flags);
  return status ? kExitFine : report_stopped(status.error(), kDoctorInterrupted, flags.json);
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Measure this machine for the forecast of moec plan --device-profile: products by storage "
      "form, memory, disk");
  auto flags = std::make_shared<DoctorFlags>();
  command
      ->add_option("--folder", flags->options.folder,
                   "Folder on the disk that will contain the exports; receives a temporary file of "
                   "268 MB")
      ->capture_default_str();
  command->add_option("--out", flags->out.path, "Write the profile to this file");
  command->add_flag("--force", flags->out.force, "Replace the file that --out names");
  command
      ->add_option("--threads", flags->options.threads,
                   "Number of compute threads, as for moec run (default: one per core)")
      ->check(CLI::Range(1, cpu_cores()));
  command
      ->add_option("--seconds", flags->options.seconds,
                   "Approximate duration; longer measurements are more precise")
      ->check(finite_from_zero())
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print the profile as JSON");
  command->footer("Example: moec doctor --folder out --out machine.json");
  command->callback([flags, &exit_code] { exit_code = run_doctor(*flags); });
}

}  // namespace moec
