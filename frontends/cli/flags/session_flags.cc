#include "frontends/cli/flags/session_flags.h"

#include <CLI/CLI.hpp>

#include "frontends/cli/flags/one_of.h"
#include "frontends/export/options/option_bytes.h"

namespace moec {

void add_mask_flag(CLI::App& command, std::string& mask) {
  command.add_option("--expert-mask", mask,
                     "Experts that tokens can choose, L0:0-7;L1:1,3,5, or @FILE with such text "
                     "(default: all; layers without an item have all)");
}

void add_form_flags(CLI::App& command, TopKRequest& request) {
  command.add_option(
      "--top-k", request.form,
      "How many experts a token takes: one of the forms that the export was made "
      "with, as 1 or 'L0-3:1;L4-:2', or policy (default: the first form, which is the "
      "checkpoint's own if it is there)");
  command.add_option("--battery", request.battery,
                     "With --top-k policy: the charge, 0 to 1, by which the export's rules choose");
  command.add_option("--category", request.category,
                     "With --top-k policy: the category of the text, by which they choose");
  command.add_option(
      "--confidence", request.confidence,
      "With --top-k policy: in each layer, a token takes the fewest experts that have "
      "this share of the routing weights of the largest form (default: the share that "
      "the export's policy names)");
}

void add_session_flags(CLI::App& command, SessionFlags& flags) {
  command
      .add_option("--precision", flags.precision,
                  "Precision of the run. f32; f16: round to f16 after every op")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  command.add_option(
      "--memory", flags.memory,
      "The most memory that the program may use, with the parts of weight files that "
      "are mapped, in MiB or with a unit: 2GB, 512MiB. Shards that do not fit are "
      "opened for each step anew (default: half of the machine's memory)");
}

Result<SessionOptions> session_options(const SessionFlags& flags) {
  SessionOptions options;
  options.expert_mask = flags.expert_mask;
  options.top_k = flags.top_k;
  if (flags.precision == "f16") options.precision = Precision::f16;
  if (flags.memory.empty()) return options;
  MOEC_ASSIGN(const int64_t memory, bytes_of_mebibyte_flag("--memory", flags.memory));
  options.memory_bytes = static_cast<uint64_t>(memory);
  return options;
}

}  // namespace moec
