#include "frontends/jobs/opt/optimise.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "ir/base/name_file.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "passes/pass_options.h"

namespace moec {

namespace {

// The comments of test cases: the passes to run, and the expected output, which is not input.
constexpr std::string_view kRun = "// run:", kExpect = "// expect", kNextCase = "// ----";

Status read_run_line(const std::string& words, IrFile& file) {
  std::istringstream stream(words);
  std::string word;
  stream >> word;
  // "verify" and "print" name no passes.
  if (word != "verify" && word != "print") file.passes = word;
  while (stream >> word) MOEC_TRY(set_pass_option(file.options, word));
  return {};
}

}  // namespace

Result<IrFile> split_ir_file(std::string_view text, const PassOptions& defaults) {
  IrFile file{{}, {}, defaults};
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    // The case ends where its expected output, or the next case, begins.
    if (line.starts_with(kExpect) || line.starts_with(kNextCase)) break;
    if (line.starts_with(kRun)) MOEC_TRY(read_run_line(line.substr(kRun.size()), file));
    // Run lines stay in the text as comments, so that line numbers in messages are those of the
    // file.
    file.input += line + "\n";
  }
  return file;
}

Result<OptInput> read_opt_input(const std::string& path, const PassOptions& defaults,
                                const ShowFindings& show) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "opt.unreadable"));
  OptInput input{path, {}, {}, defaults};
  MOEC_ASSIGN(input.file, naming_file(split_ir_file(text, defaults), path));
  MOEC_ASSIGN(input.shard, parse_shard(input.file.input, {.file = path}));
  Diagnostics findings = verify(input.shard);
  // Warnings do not stop the pipeline.
  if (!has_error(findings)) return input;
  if (show) show(print_with_findings(input.shard, findings));
  return fail(found_in_file(std::move(findings), path));
}

Result<Optimised> optimise(const OptInput& input, const std::string& passes,
                           const RunOptions& run) {
  PassContext context;
  // Passes of the command line replace those of the file, including its options.
  context.options = passes.empty() ? input.file.options : input.defaults;
  std::vector<const Pass*> pipeline = default_pipeline(context.options);
  if (!passes.empty()) {
    MOEC_ASSIGN(pipeline, parse_pipeline(passes));
  } else if (!input.file.passes.empty()) {
    auto named = parse_pipeline(input.file.passes);
    // An error in the run line concerns the file, so it names the file.
    if (!named) return fail(naming_file(named.error(), input.path));
    pipeline = std::move(*named);
  }
  auto result = run_pipeline(input.shard, pipeline, context, run);
  if (!result) return fail(found_in_file(std::move(result.error()), input.path));
  return Optimised{std::move(*result), std::move(context.notes)};
}

using nlohmann::ordered_json;

ordered_json optimised_json(const Optimised& optimised) {
  const auto& [result, notes] = optimised;
  auto passes = ordered_json::array();
  for (const PassReport& report : result.passes)
    passes.push_back({{"pass", report.pass},
                      {"seconds", report.seconds},
                      {"ops_before", report.ops_before},
                      {"ops_after", report.ops_after},
                      {"changed", report.changed}});
  return report_json(
      true, {{"shard", result.shard.name}, {"passes", passes}, {"ir", print(result.shard)}}, notes);
}

ordered_json passes_json() {
  auto list = ordered_json::array();
  for (const Pass& pass : all_passes())
    list.push_back({{"name", pass.name},
                    {"from", form_name(pass.from)},
                    {"to", form_name(pass.to)},
                    {"summary", pass.summary}});
  return report_json(true, {{"passes", list}});
}

}  // namespace moec
