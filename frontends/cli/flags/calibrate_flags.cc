#include "frontends/cli/flags/calibrate_flags.h"

#include <CLI/CLI.hpp>

#include "frontends/cli/flags/family_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/source_flag.h"
#include "frontends/export/options/option_bytes.h"

namespace moec {

void add_calibrate_flags(CLI::App& command, CalibrateFlags& flags) {
  add_source(command, "CKPT", flags.source, "A checkpoint folder")->required();
  CLI::Option* texts =
      command
          .add_option("--text", flags.texts, "Text files to calibrate with, one after the other")
          ->delimiter(',')
          ->allow_extra_args(false);
  command
      .add_option("--tokens", flags.tokens,
                  "A file of token ids instead of text, separated by spaces, lines or commas")
      ->excludes(texts);
  command.add_option("-o,--out", flags.out, "Folder for the statistics")->required();
  command
      .add_option("--window", flags.window,
                  "Tokens that see one another, at most the model's positions")
      ->check(whole_from(1))
      ->capture_default_str();
  command.add_option("--group-memory", flags.group_memory,
                     "Run the experts of larger layers in groups of this size, in MiB or with a "
                     "unit: 2GB, 512MiB; sums of one input that take more than a quarter of it "
                     "are taken in blocks (default: 1GiB)");
  command.add_flag("--sensitivity", flags.sensitivity,
                   "Measure besides how much errors of each layer's experts matter, for --weights "
                   "auto:BITS; --out may hold the finished calibration");
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
  if (flags.group_memory.empty()) return options;
  MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--group-memory", flags.group_memory));
  options.group_bytes = static_cast<uint64_t>(bytes);
  return options;
}

}  // namespace moec
