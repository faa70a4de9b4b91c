#include "frontends/export/options/resolve_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "backends/formats/format.h"
#include "backends/targets/find_target.h"
#include "frontends/compile/ane_book_form.h"
#include "ir/target/weight_support.h"
#include "models/plan/target_budgets.h"

namespace moec {
namespace {

constexpr uint64_t kExpertAlignment = uint64_t{64} << 10;  // with --experts-per-shard

std::string names_of(std::span<const Target> targets) {
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Ignoring an option that has no effect would hide a mistake.
tl::unexpected<Diagnostics> refuse(const OptionRow& row, const std::string& files,
                                   const std::string& flag, std::span<const Target> targets) {
  return fail(
      "export.flags",
      fmt::format("{} is for {}; target {} has none", row.long_name(), files, names_of(targets)),
      fmt::format("leave it out, or give --target {}", flag));
}

Status check_effect(const OptionRow& row, std::span<const Target> targets) {
  if (std::any_of(targets.begin(), targets.end(),
                  [&](const Target& target) { return row.has_effect(target); }))
    return {};
  switch (row.scope.formats) {
    case OptionFormats::all:
    case OptionFormats::graphs:  // by check_weights_only()
      return {};
    case OptionFormats::onnx:
      return refuse(row, "ONNX files", "onnx", targets);
    case OptionFormats::coreml:
      return refuse(row, "Core ML packages", "ane", targets);
    case OptionFormats::gguf:
      return refuse(row, "GGUF files", "gguf", targets);
  }
  return {};
}

// The rows whose words say something else than their defaults.
std::vector<const OptionRow*> changed_rows(const GivenOptions& given) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow* row : option_rows())
    if (const auto words = given.find(row->long_name());
        words != given.end() && row->differs(words->second))
      rows.push_back(row);
  return rows;
}

// Files of weights are written alone, and without what describes graphs.
Status check_weights_only(std::span<const OptionRow* const> rows, std::span<const Target> targets) {
  const bool has_one = std::any_of(targets.begin(), targets.end(), [](const Target& target) {
    return format_of(target.format).shape == FormatShape::weights_only;
  });
  if (!has_one) return {};
  if (targets.size() > 1)
    return fail("export.flags",
                fmt::format("a weights-only target cannot be combined with other targets: {}",
                            names_of(targets)),
                "export for each of them alone");
  std::vector<std::string_view> without_effect;
  for (const OptionRow* row : rows) {
    if (row->name == "--top-k")
      return fail(
          "top_k.format",
          fmt::format("--top-k makes graphs, and target {} has files of weights, of which the "
                      "runtime chooses as many experts as their key expert_used_count says",
                      names_of(targets)),
          "leave it out; llama.cpp takes another number as --override-kv "
          "ARCHITECTURE.expert_used_count=int:1");
    if (row->scope.formats == OptionFormats::graphs) without_effect.push_back(row->long_name());
  }
  if (without_effect.empty()) return {};
  return fail("export.flags",
              fmt::format("{} has no effect for target {}, whose files hold no graphs",
                          fmt::join(without_effect, ", "), names_of(targets)),
              "leave it out");
}

// Options as the target prefers, before any that was given.
Result<ExportOptions> preferred(const ExportOptions& base, const std::string& target,
                                const std::string& chip) {
  ExportOptions options = base;
  CompileOptions& compile = options.compile;
  if (is_target_file(target)) compile.target_file = target;
  MOEC_ASSIGN(compile.passes.target, find_target(target));
  compile.chip = chip;
  if (!chip.empty()) {
    MOEC_ASSIGN(compile.passes.target, for_chip(std::move(compile.passes.target), chip));
  }
  compile.passes.attention = compile.passes.target.attention;
  compile.build.dtype = compile.passes.target.dtype;
  compile.build.head_slices = 0;
  compile.cuts.budgets = target_budgets(compile.passes.target);
  options.resources.jobs = 0;
  return options;
}

Status apply(const OptionRow& row, const Words& words, ExportOptions& options) {
  for (const std::string& word : words)
    if (std::string wrong = row.wrong_word(word); !wrong.empty())
      return fail("export.flags", fmt::format("{}: {}", row.long_name(), wrong),
                  fmt::format("moec export --help-all describes {}", row.long_name()));
  if (row.parse) return row.parse(words, options);
  if (row.set) row.set(words, options);
  return {};
}

// What follows from several options together.
Status derive(const GivenOptions& given, ExportOptions& options) {
  CompileOptions& compile = options.compile;
  BuildOptions& build = compile.build;
  Target& target = compile.passes.target;
  if (!given.contains("--form")) target.projection = projection_for(target, build.weights);
  MOEC_TRY(check_weight_forms(target, build.weights));
  if (target.projection == ProjectionForm::matmul) {
    if (given.contains("--layout"))
      return fail("export.flags", "--layout has no effect with --form matmul",
                  "leave one of the two out; some forms of --weights imply --form matmul");
    build.layout = Layout::rows;
  }
  build.wide_router = build.dtype == DType::f16 && !target.limits.no_casts;
  build.cache = target.has_state && compile.kv != "io" ? CacheForm::blend : CacheForm::append;
  build.host_routing = compile.passes.routing == RoutingForm::host;
  if (compile.devices.devices.empty() && !compile.devices.loads.empty())
    return fail("plan.device_value", "--loads needs devices to place experts on",
                "add --device NAME=MEMORY for each");
  if (!given.contains("--expert-align") && compile.cuts.experts_per_shard > 0)
    options.output.expert_alignment = kExpertAlignment;
  if (options.output.ane_book) cut_for_ane_book(compile.cuts);
  return {};
}

std::string word_of(const GivenOptions& given, std::string_view name, std::string_view otherwise) {
  const auto words = given.find(name);
  return words == given.end() ? std::string(otherwise) : words->second.front();
}

Result<ExportOptions> resolve_for(const GivenOptions& given, const ExportOptions& base,
                                  const std::string& target, const std::string& chip) {
  MOEC_ASSIGN(ExportOptions options, preferred(base, target, chip));
  for (const OptionRow* row : option_rows()) {
    const auto words = given.find(row->long_name());
    if (words != given.end() && row->has_effect(options.compile.passes.target))
      MOEC_TRY(apply(*row, words->second, options));
  }
  MOEC_TRY(derive(given, options));
  return options;
}

bool is_folder_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

// Several targets each get a folder of their name.
Status check_target_names(std::span<const Target> targets) {
  std::set<std::string> names;
  for (const Target& target : targets) {
    if (!is_folder_name(target.name))
      return fail("export.flags",
                  fmt::format("the target name \"{}\" cannot be the name of a folder", target.name),
                  "rename the target in its file, or export for this target alone");
    if (!names.insert(target.name).second)
      return fail("export.flags", fmt::format("there are two targets named {}", target.name),
                  "rename one of them in its file, or export for each alone");
  }
  return {};
}

Result<std::vector<Target>> find_targets(const std::vector<std::string>& names) {
  std::vector<Target> targets;
  for (const std::string& name : names) {
    MOEC_ASSIGN(Target target, find_target(name));
    targets.push_back(std::move(target));
  }
  if (targets.size() > 1) MOEC_TRY(check_target_names(targets));
  return targets;
}

Status check_effects(const GivenOptions& given, std::span<const Target> targets) {
  const std::vector<const OptionRow*> rows = changed_rows(given);
  for (const OptionRow* row : rows) MOEC_TRY(check_effect(*row, targets));
  return check_weights_only(rows, targets);
}

bool has_chips(const Target& target) { return !target.chips.empty(); }

}  // namespace

Result<std::vector<ExportOptions>> resolve_options(const GivenOptions& given,
                                                   const ExportOptions& base) {
  std::vector<std::string> names;
  MOEC_TRY(for_each_part(word_of(given, "--target", "onnx"), ",", [&](std::string_view name) {
    names.emplace_back(name);
    return Status();
  }));
  MOEC_ASSIGN(const std::vector<Target> targets, find_targets(names));
  MOEC_TRY(check_effects(given, targets));
  // A chip that no target has is refused by for_chip().
  const std::string chip = word_of(given, "--chip", "");
  const bool any_chips = std::any_of(targets.begin(), targets.end(), has_chips);
  std::vector<ExportOptions> all;
  for (size_t i = 0; i < targets.size(); ++i) {
    const bool applies = has_chips(targets[i]) || !any_chips;
    MOEC_ASSIGN(ExportOptions options, resolve_for(given, base, names[i], applies ? chip : ""));
    if (targets.size() > 1) {
      options.output.folder += "/" + targets[i].name;
      options.compile.run.subfolder = targets[i].name;
    }
    all.push_back(std::move(options));
  }
  return all;
}

Result<ExportOptions> resolve_for_one(const GivenOptions& given, const ExportOptions& base) {
  const std::string name = word_of(given, "--target", "onnx");
  MOEC_ASSIGN(const Target target, find_target(name));
  MOEC_TRY(check_effects(given, {&target, 1}));
  return resolve_for(given, base, name, word_of(given, "--chip", ""));
}

}  // namespace moec
