// moec doctor: measures this machine for the forecast of moec plan.
#include "frontends/jobs/doctor/doctor.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/cpu/cpu_engine.h"
#include "backends/files/stop_signals.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/progress.h"
#include "frontends/cli/print/say.h"
#include "ir/base/report_json.h"
#include "ir/base/seconds_since.h"

namespace moec {
namespace {

struct DoctorFlags {
  DoctorOptions options;
  bool json = false;
};

int run_doctor(const DoctorFlags& flags) {
  const StopSignals signals;
  DoctorOptions options = flags.options;
  Progress progress("doctor", false, "");
  const Clock::time_point start = Clock::now();
  const auto total = static_cast<uint64_t>(1e3 * options.measure.seconds);
  uint64_t told = 0;
  // The work of a measurement is its duration, of which only the approximate total is known.
  options.measure.stop = [&] {
    const auto passed = static_cast<uint64_t>(1e3 * seconds_since(start));
    progress.advance(passed - std::exchange(told, passed), total, "");
    return StopSignals::caught() != 0;
  };
  progress.advance(0, total, "writing the temporary file");
  const auto profile = profile_machine(options);
  progress.finish();
  if (!profile) return report_stopped(profile.error(), kDoctorInterrupted, flags.json);
  if (flags.json)
    print_json(report_json(true, device_profile_json(*profile)));
  else
    print_out("{}", device_profile_table(*profile));
  return kExitFine;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Measure this machine for the forecast of moec plan --device-profile: products by storage "
      "form, memory, disk");
  auto flags = std::make_shared<DoctorFlags>();
  MeasureOptions& measure = flags->options.measure;
  UserOutput& out = flags->options.out;
  command
      ->add_option("--folder", measure.folder,
                   "Folder on the disk that will contain the exports; receives a temporary file of "
                   "268 MB")
      ->capture_default_str();
  command->add_option("--out", out.path, "Write the profile to this file");
  command->add_flag("--force", out.force, "Replace the file that --out names");
  command
      ->add_option("--threads", measure.threads,
                   "Number of compute threads, as for moec run (default: one per core)")
      ->check(CLI::Range(1, cpu_cores()));
  command
      ->add_option("--seconds", measure.seconds,
                   "Approximate duration; longer measurements are more precise")
      ->check(finite_from_zero())
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print the profile as JSON");
  command->footer("Example: moec doctor --folder out --out machine.json");
  command->callback([flags, &exit_code] { exit_code = run_doctor(*flags); });
}

}  // namespace moec
