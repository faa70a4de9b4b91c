#include "frontends/cli/flags/analyze_flags.h"

#include <CLI/CLI.hpp>

#include "backends/cpu/cpu_engine.h"
#include "frontends/cli/flags/family_flags.h"
#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/source_flag.h"
#include "frontends/export/options/option_bytes.h"
#include "frontends/jobs/inspect/path_kind.h"

namespace moec {
namespace {

// Returns the flags that the caller must make mutually exclusive.
std::vector<CLI::Option*> add_text_sources(CLI::App& command, AnalysisSource& text) {
  // join_lists() has joined separate words of --text with commas before CLI11 parses.
  std::vector<CLI::Option*> sources = {
      command.add_option("-p,--prompt", text.prompt, "Text to run"),
      command.add_option("--text", text.texts, "Text files, one document each")
          ->delimiter(',')
          ->allow_extra_args(false),
      command
          .add_option("--tokens", text.tokens,
                      "Files of token ids instead of text, one document each")
          ->delimiter(',')
          ->allow_extra_args(false),
      command.add_option("--prompts", text.prompts,
                         "A suite of prompts by category: default, or a file of JSON lines "
                         R"({"category": …, "text": …}, with "tokens" instead of "text")"
                         " for token ids")};
  command
      .add_option("--window", text.window,
                  "Tokens per window of a document, at most the model's number of positions; "
                  "attention does not cross windows")
      ->check(whole_from(1))
      ->capture_default_str();
  return sources;
}

// CLI11 makes an exclusion mutual, so each pair is stated once.
void exclude_one_another(const std::vector<CLI::Option*>& options) {
  for (size_t i = 0; i < options.size(); ++i)
    for (size_t j = 0; j < i; ++j) options[i]->excludes(options[j]);
}

void add_output_flags(CLI::App& command, AnalyzeFlags& flags) {
  command.add_flag("-q,--quiet", flags.quiet, "Print no progress and no notes");
  command.add_flag("--json", flags.json, "Print the report as JSON");
}

void add_common_flags(CLI::App& command, AnalyzeFlags& flags) {
  command.add_option("--group-memory", flags.group_memory,
                     "For a checkpoint: run the experts of a layer in groups of at most this size, "
                     "in MiB or with a unit, e.g. 2GB (default: 1GiB)");
  add_session_flags(command, flags.session);
  add_family_options(command, flags.options.family);
  add_output_flags(command, flags);
}

// 0 is a valid price, so an optional distinguishes it from an absent flag, which has a default.
void add_energy_flag(CLI::App& command, CLI::Option* table, const char* name,
                     std::optional<double>& price, const char* what) {
  command.add_option(name, price, what)->needs(table)->check(finite_from_zero());
}

void add_table_flags(CLI::App& command, AnalyzeFlags& flags) {
  CLI::Option* table =
      command.add_flag("--table", flags.with_table,
                       "Also write table.csv, table.md and table.json, and print the table: "
                       "parameters, memory, bytes and multiplies per token, step times, expert "
                       "load, energy. Accepts dense models; needs no text");
  command
      .add_option(
          "--baseline", flags.table.baseline,
          "With --table: another checkpoint or export, dense or with experts, as a second column")
      ->needs(table);
  command
      .add_option("--repeats", flags.table.runs, "With --table: number of timed steps of an export")
      ->needs(table)
      ->check(whole_from(1))
      ->capture_default_str();
  add_energy_flag(command, table, "--energy-per-byte", flags.table.energy_per_byte,
                  "With --table: picojoules per byte of weights that a token reads (default: "
                  "162.5, DRAM in Horowitz, ISSCC 2014)");
  add_energy_flag(command, table, "--energy-per-mac", flags.table.energy_per_mac,
                  "With --table: picojoules per multiply-add (default: 4.6 in f32, 1.5 in f16, "
                  "from the same source)");
}

// Detects the kind of --baseline and checks it.
Status add_baseline(TableOptions& table) {
  if (table.baseline.empty()) return {};
  // An export needs no further check: kind_of_path() has found its manifest.
  table.baseline_exported = kind_of_path(table.baseline) == PathKind::exported;
  return table.baseline_exported ? Status() : require_checkpoint(table.baseline);
}

}  // namespace

void add_measured_source_flags(CLI::App& command, AnalyzeFlags& flags) {
  add_source(command, "SOURCE", flags.options.source,
             "A checkpoint folder, a GGUF file or an export")
      ->required();
  exclude_one_another(add_text_sources(command, flags.options.text));
  add_common_flags(command, flags);
}

void add_text_run_flags(CLI::App& command, AnalyzeFlags& flags) {
  exclude_one_another(add_text_sources(command, flags.options.text));
  add_session_flags(command, flags.session);
  add_output_flags(command, flags);
}

void add_analyze_flags(CLI::App& command, AnalyzeFlags& flags) {
  AnalyzeOptions& options = flags.options;
  add_source(command, "SOURCE", options.source, "A checkpoint folder, a GGUF file or an export")
      ->required();
  command.add_option("-o,--out", options.folder, "Folder for the results")->required();
  std::vector<CLI::Option*> sources = add_text_sources(command, options.text);
  // Counts of an imatrix replace a run, so they exclude every text.
  sources.push_back(
      command.add_option("--from-imatrix", options.imatrix,
                         "Read the counts of an imatrix GGUF file of llama.cpp instead of running "
                         "a text"));
  exclude_one_another(sources);
  command.add_flag("--coactivation", options.pairs_file,
                   "Also write coactivation.csv, one line per pair of experts");
  command.add_flag("--imatrix", options.imatrix_file,
                   "For a checkpoint: also write imatrix.gguf for llama-quantize");
  add_table_flags(command, flags);
  add_common_flags(command, flags);
}

Result<AnalyzeOptions> analyze_options(const AnalyzeFlags& flags) {
  AnalyzeOptions options = flags.options;
  // The kind decides how the model runs: a checkpoint is read layer by layer, an export through a
  // session.
  options.exported = kind_of_path(options.source) == PathKind::exported;
  if (!options.exported) {
    MOEC_TRY(require_checkpoint(options.source));
    options.products = cpu_products(flags.session.threads);
  }
  // With --table, a text is optional: most rows of the table follow from the model alone.
  if (flags.with_table) {
    options.table = flags.table;
    MOEC_TRY(add_baseline(*options.table));
  } else if (!options.text.given() && options.imatrix.empty()) {
    return fail("analyze.empty", "no text was given to run",
                "pass --prompts default, --prompt TEXT, --text FILES or --tokens FILES");
  }
  MOEC_ASSIGN(options.session, session_options(flags.session));
  // Without --group-memory, AnalyzeOptions has the default.
  if (flags.group_memory.empty()) return options;
  MOEC_ASSIGN(const int64_t bytes, bytes_of_mebibyte_flag("--group-memory", flags.group_memory));
  options.group_bytes = static_cast<uint64_t>(bytes);
  return options;
}

}  // namespace moec
