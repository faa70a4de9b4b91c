#include "frontends/jobs/doctor/doctor.h"

#include <fmt/format.h>

#include <filesystem>

#include "backends/files/output_file.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

Status require_disk_folder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  return fail("doctor.folder", "--folder is not a folder",
              "pass an existing folder on the disk that will contain the exports",
              {.file = folder});
}

}  // namespace

Result<DeviceProfile> profile_machine(const DoctorOptions& options) {
  MOEC_TRY(require_disk_folder(options.measure.folder));
  // Before the measurement, so that a refused file costs no time. A profile has no source folder,
  // in which the file must not lie.
  MOEC_TRY(check_user_output(options.out, ""));
  MOEC_ASSIGN(DeviceProfile profile, measure_device(options.measure));
  if (!options.out.path.empty())
    MOEC_TRY(write_user_file(options.out.path, device_profile_text(profile)));
  return profile;
}

namespace {

std::string rate_text(double bytes_per_second) {
  return decimal_bytes(static_cast<int64_t>(bytes_per_second)) + "/s";
}

// Speeds of the largest measured weight, with one token and with the most tokens.
std::string form_row(const FormTimes& form) {
  const ProductPoint& last = form.times.points().back();
  const auto weights = static_cast<double>(last.weights), tokens = static_cast<double>(last.tokens);
  return fmt::format("{:<14} {:<5} {:>12.2f} {:>12.2f}\n", to_string(form.form),
                     dtype_name(form.dtype), weights / form.times.seconds(weights, 1) / 1e9,
                     weights * tokens / form.times.seconds(weights, tokens) / 1e9);
}

}  // namespace

std::string device_profile_table(const DeviceProfile& profile) {
  std::string text =
      fmt::format("{}, {} of memory\n\n", profile.machine(), decimal_bytes(profile.memory_bytes));
  const int64_t most = profile.forms.front().times.points().back().tokens;
  text += fmt::format("{:<14} {:<5} {:>12} {:>12}  (10^9 multiplies/s)\n", "weights", "as",
                      "1 token", fmt::format("{} tokens", most));
  for (const FormTimes& form : profile.forms) text += form_row(form);
  text += fmt::format("\nmemory: {}\ndisk: {} in order", rate_text(profile.memory_rate),
                      rate_text(profile.sequential_rate));
  for (const RandomReads& read : profile.reads)
    text += fmt::format(", {} in reads of {}", rate_text(read.rate), decimal_bytes(read.bytes));
  return text + fmt::format("\nops: {:.2f} us each, {:.2f} us if skipped, {:.2f} us per graph\n",
                            1e6 * profile.op_seconds, 1e6 * profile.idle_op_seconds,
                            1e6 * profile.run_seconds);
}

}  // namespace moec
