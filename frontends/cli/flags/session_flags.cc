#include "frontends/cli/flags/session_flags.h"

#include <CLI/CLI.hpp>

#include "backends/cpu/cpu_engine.h"
#include "backends/formats/read_shard.h"
#include "frontends/cli/flags/one_of.h"
#include "frontends/export/options/option_bytes.h"

namespace moec {

void add_mask_flag(CLI::App& command, std::string& mask) {
  command.add_option("--expert-mask", mask,
                     "Experts that tokens may choose, e.g. L0:0-7;L1:1,3,5, or @FILE to read the "
                     "mask from a file; layers without an item allow all experts (default: all)");
}

void add_form_flags(CLI::App& command, TopKRequest& request) {
  command.add_option(
      "--top-k", request.form,
      "Experts per token: a top-k variant of the export, e.g. 1 or 'L0-3:1;L4-:2', or policy "
      "(default: the first variant, which is the checkpoint's own if the export has it)");
  command.add_option("--battery", request.battery,
                     "With --top-k policy: battery charge, 0 to 1, for the export's rules");
  command.add_option("--category", request.category,
                     "With --top-k policy: category of the text, for the export's rules");
  command.add_option(
      "--confidence", request.confidence,
      "With --top-k policy: in each layer, a token uses the fewest experts whose routing weights "
      "reach this share of the largest variant's (default: the share in the export's policy)");
}

void add_threads_flag(CLI::App& command, int& threads) {
  command
      .add_option("--threads", threads,
                  "Number of compute threads; results do not depend on it (default: one per core)")
      ->check(CLI::Range(1, cpu_cores()));
}

void add_session_flags(CLI::App& command, SessionFlags& flags) {
  command
      .add_option("--precision", flags.precision,
                  "Precision of the run: f32, or f16, which rounds to f16 after every op")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  command.add_option("--memory", flags.memory,
                     "Maximum memory of the program, including the mapped parts of weight files, "
                     "in MiB or with a unit, e.g. 2GB. Shards that do not fit are reopened for "
                     "each step (default: half of the machine's memory)");
  add_threads_flag(command, flags.threads);
  command
      .add_option(
          "--activations", flags.activations,
          "Activations in products with 4-bit and 8-bit codes: f32, or int8, which is faster for "
          "single tokens but rounds the activations to int8 in groups of 32")
      ->check(one_of({"f32", "int8"}))
      ->capture_default_str();
  command
      .add_option(
          "--cache-dtype", flags.cache_dtype,
          "Storage of the KV caches: f32, or f16, which halves their memory but rounds keys "
          "and values to f16 (only with --engine cpu)")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
}

Result<SessionOptions> session_options(const SessionFlags& flags) {
  SessionOptions options;
  // In f16, each decoded weight is rounded, so no kernel multiplies the codes.
  if (flags.precision == "f16" && flags.activations == "int8")
    return fail("cli.conflict", "--activations int8 has no effect with --precision f16",
                "omit --activations int8, or pass --precision f32");
  // The default engine; open_engine() replaces it for commands with --engine.
  const bool rounds = flags.activations == "int8";
  options.engine = cpu_engine(read_shard, flags.threads,
                              rounds ? ActivationFormat::int8 : ActivationFormat::f32);
  options.expert_mask = flags.expert_mask;
  options.top_k = flags.top_k;
  // f32 is the default of SessionOptions.
  if (flags.precision == "f16") options.precision = Precision::f16;
  if (flags.cache_dtype == "f16") options.cache_dtype = DType::f16;
  if (flags.memory.empty()) return options;
  MOEC_ASSIGN(const int64_t memory, bytes_of_mebibyte_flag("--memory", flags.memory));
  options.memory_bytes = static_cast<uint64_t>(memory);
  return options;
}

}  // namespace moec
