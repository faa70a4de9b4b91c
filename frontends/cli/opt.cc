// moec opt: runs passes over a shard in text form.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "frontends/cli/commands.h"
#include "frontends/cli/flags/ir_file.h"
#include "frontends/cli/flags/pass_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/name_file.h"
#include "ir/base/regular_file.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

struct OptFlags {
  std::string file, passes;
  bool list = false, timing = false, json = false;
  PassFlags pass_flags;
};

struct Optimised {
  PipelineResult result;
  Diagnostics notes;
};

void list_passes(bool json) {
  auto list = ordered_json::array();
  for (const Pass& pass : all_passes())
    list.push_back({{"name", pass.name},
                    {"from", form_name(pass.from)},
                    {"to", form_name(pass.to)},
                    {"summary", pass.summary}});
  if (json) return print_json(true, {{"passes", list}});
  for (const Pass& pass : all_passes())
    print_out("{:<24} {:>8} -> {:<8} {}\n", pass.name, form_name(pass.from), form_name(pass.to),
              pass.summary);
}

Result<Optimised> optimise(const OptFlags& flags) {
  PassContext context;
  MOEC_ASSIGN(context.options, pass_options(flags.pass_flags));
  MOEC_TRY(require_ir(flags.file));
  MOEC_ASSIGN(const std::string text, read_user_text(flags.file, "opt.unreadable"));
  MOEC_ASSIGN(const IrFile file, naming_file(split_ir_file(text, context.options), flags.file));
  MOEC_ASSIGN(const Shard shard, parse_shard(file.input, {.file = flags.file}));
  if (Diagnostics findings = verify(shard); has_error(findings)) {
    if (!flags.json) say("{}", print_with_findings(shard, findings));
    return fail(found_in_file(std::move(findings), flags.file));
  }
  const std::string& names = flags.passes.empty() ? file.passes : flags.passes;
  if (flags.passes.empty()) context.options = file.options;
  MOEC_ASSIGN(RunOptions run, run_options(flags.pass_flags));
  std::vector<const Pass*> passes = default_pipeline(context.options);
  if (!names.empty()) {
    auto named = parse_pipeline(names);
    if (!named && flags.passes.empty()) return fail(naming_file(named.error(), flags.file));
    MOEC_ASSIGN(passes, std::move(named));
  }
  auto result = run_pipeline(shard, passes, context, run);
  if (!result) return fail(found_in_file(std::move(result.error()), flags.file));
  return Optimised{std::move(*result), std::move(context.notes)};
}

void print_optimised(const Optimised& optimised, bool timing) {
  const auto& [result, notes] = optimised;
  print_notes(notes);
  if (timing)
    for (const PassReport& report : result.passes)
      say("{:<24} {:9.3f} ms  {:>5} -> {:>5} ops{}\n", report.pass, report.seconds * 1e3,
          report.ops_before, report.ops_after, report.changed ? "" : "  (unchanged)");
  print_out("{}", print(result.shard));
}

void print_optimised_json(const Optimised& optimised) {
  const auto& [result, notes] = optimised;
  auto passes = ordered_json::array();
  for (const PassReport& report : result.passes)
    passes.push_back({{"pass", report.pass},
                      {"seconds", report.seconds},
                      {"ops_before", report.ops_before},
                      {"ops_after", report.ops_after},
                      {"changed", report.changed}});
  print_json(true, {{"shard", result.shard.name}, {"passes", passes}, {"ir", print(result.shard)}},
             notes);
}

int run_opt(const OptFlags& flags) {
  const Result<Optimised> optimised = optimise(flags);
  if (!optimised) return report_failure(optimised.error(), flags.json);
  flags.json ? print_optimised_json(*optimised) : print_optimised(*optimised, flags.timing);
  return kExitFine;
}

}  // namespace

void add_opt_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("opt", "Run passes over a shard in text form and print the result");
  auto flags = std::make_shared<OptFlags>();
  command->add_option("FILE", flags->file, "A shard in text form, an .ir test or a reproducer");
  command->add_option(
      "--passes", flags->passes,
      "Names of the passes to run, a,b or a b (default: those of the file's run line, or the whole "
      "pipeline if it has none)");
  command->add_flag("--list-passes", flags->list, "List all passes and exit");
  command->add_flag("--timing", flags->timing,
                    "Print the time of each pass and the number of ops before and after it");
  command->add_flag("--json", flags->json,
                    "Print the result as JSON, with the times and numbers of ops of the passes");
  add_pass_flags(*command, flags->pass_flags);
  command->footer(
      "Example: moec opt tests/passes/unroll_experts.ir --passes unroll_experts,lower_gated_mlp");
  command->callback([flags, &exit_code] {
    if (flags->list) return list_passes(flags->json);
    if (flags->file.empty()) throw CLI::RequiredError("FILE");
    exit_code = run_opt(*flags);
  });
}

}  // namespace moec
