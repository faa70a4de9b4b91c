#include "frontends/cli/flags/calibrate_flags.h"

#include <CLI/CLI.hpp>

#include "backends/cpu/cpu_engine.h"
#include "frontends/cli/flags/family_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/session_flags.h"
#include "frontends/cli/flags/source_flag.h"
#include "frontends/export/options/option_bytes.h"

namespace moec {

void add_calibrate_flags(CLI::App& command, CalibrateFlags& flags) {
  add_source(command, "CKPT", flags.source, "A checkpoint folder")->required();
  CLI::Option* texts =
      command.add_option("--text", flags.texts, "Text files to calibrate on, concatenated")
          ->delimiter(',')
          ->allow_extra_args(false);
  command
      .add_option("--tokens", flags.tokens,
                  "A file of token ids instead of text, separated by spaces, newlines or commas")
      ->excludes(texts);
  command.add_option("-o,--out", flags.out, "Folder for the statistics")->required();
  command
      .add_option("--window", flags.window,
                  "Tokens per window, at most the model's number of positions; attention does not "
                  "cross windows")
      ->check(whole_from(1))
      ->capture_default_str();
  command.add_option("--group-memory", flags.group_memory,
                     "Run the experts of a layer in groups of at most this size, in MiB or with a "
                     "unit, e.g. 2GB. If the sums of an input exceed a quarter of it, they are "
                     "accumulated in blocks (default: 1GiB)");
  CLI::Option* sensitivity = command.add_flag(
      "--sensitivity", flags.sensitivity,
      "Also measure the sensitivity to errors of each layer's experts, for --weights "
      "auto:BITS; --out may contain a finished calibration");
  CLI::Option* part =
      command
          .add_option("--part", flags.part,
                      "Calibrate only share I of N of the layers, counted from 0, into "
                      "OUT/.parts/I, for processes on several nodes. --join completes the "
                      "calibration")
          ->excludes(sensitivity);
  command
      .add_flag("--join", flags.join,
                "Complete a calibration with the layers that --part wrote; missing ones are "
                "calibrated")
      ->excludes(part);
  add_threads_flag(command, flags.threads);
  add_family_options(command, flags.family);
  command.add_flag("-q,--quiet", flags.quiet, "Print no progress and no notes");
  command.add_flag("--json", flags.json, "Print the report as JSON");
}

Result<CalibrateOptions> calibrate_options(const CalibrateFlags& flags) {
  CalibrateOptions options;
  options.source = flags.source;
  options.family = flags.family;
  options.texts = flags.texts;
  options.tokens_file = flags.tokens;
  options.folder = flags.out;
  options.window = flags.window;
  options.sensitivity = flags.sensitivity;
  options.join = flags.join;
  if (!flags.part.empty()) {
    MOEC_ASSIGN(options.part, parse_share(flags.part, "calibrate.part"));
  }
  options.products = cpu_products(flags.threads);
  if (flags.group_memory.empty()) return options;
  MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--group-memory", flags.group_memory));
  options.group_bytes = static_cast<uint64_t>(bytes);
  return options;
}

}  // namespace moec
