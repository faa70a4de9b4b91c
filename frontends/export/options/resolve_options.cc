#include "frontends/export/options/resolve_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "backends/formats/format.h"
#include "backends/targets/find_target.h"
#include "frontends/compile/ane_book_form.h"
#include "ir/base/parse_number.h"
#include "ir/target/weight_support.h"
#include "models/plan/target_budgets.h"

namespace moec {
namespace {

// emit_onnx() aligns each weight to 64 KiB. This value also aligns each expert within a weight.
constexpr uint64_t kExpertAlignment = uint64_t{64} << 10;  // with --experts-per-shard

std::string names_of(std::span<const Target> targets) {
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Refuses an option without effect, because ignoring it would hide a mistake.
tl::unexpected<Diagnostics> refuse(const OptionRow& row, const std::string& files,
                                   const std::string& flag, std::span<const Target> targets) {
  return fail("export.flags",
              fmt::format("{} has an effect only on {}, but target {} writes none", row.long_name(),
                          files, names_of(targets)),
              fmt::format("omit {}, or pass --target {}", row.long_name(), flag));
}

Status check_effect(const OptionRow& row, std::span<const Target> targets) {
  if (std::any_of(targets.begin(), targets.end(),
                  [&](const Target& target) { return row.has_effect(target); }))
    return {};
  switch (row.scope.formats) {
    case OptionFormats::all:
    case OptionFormats::graphs:  // refused by check_weights_only()
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

// Rows whose given words differ from their defaults.
// An option with its default value changes nothing, so it is not refused for other formats.
std::vector<const OptionRow*> changed_rows(const GivenOptions& given) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow* row : option_rows())
    if (const auto words = given.find(row->long_name());
        words != given.end() && row->differs(words->second))
      rows.push_back(row);
  return rows;
}

// Refuses several targets and graph options for a target that writes weights only.
Status check_weights_only(std::span<const OptionRow* const> rows, std::span<const Target> targets) {
  const bool has_one = std::any_of(targets.begin(), targets.end(), [](const Target& target) {
    return format_of(target.format).shape == FormatShape::weights_only;
  });
  if (!has_one) return {};
  if (targets.size() > 1)
    return fail("export.flags",
                fmt::format("a weights-only target cannot be combined with other targets: {}",
                            names_of(targets)),
                "export for each target separately");
  std::vector<std::string_view> without_effect;
  for (const OptionRow* row : rows) {
    // llama.cpp can override the number of experts at load, so this option has a specific next
    // step.
    if (row->name == "--top-k")
      return fail(
          "top_k.format",
          fmt::format("--top-k has no effect for target {}, because its files contain no graphs",
                      names_of(targets)),
          "omit --top-k, and pass --override-kv ARCHITECTURE.expert_used_count=int:1 to llama.cpp");
    if (row->scope.formats == OptionFormats::graphs) without_effect.push_back(row->long_name());
  }
  if (without_effect.empty()) return {};
  return fail("export.flags",
              fmt::format("{} has no effect for target {}, because its files contain no graphs",
                          fmt::join(without_effect, ", "), names_of(targets)),
              "omit the flag, or choose a target with graphs");
}

// Returns the target's preferences, before any given option is applied.
Result<ExportOptions> preferred(const ExportOptions& base, const std::string& target,
                                const std::string& chip) {
  ExportOptions options = base;
  CompileOptions& compile = options.compile;
  // The journal records the digest of this file, because its rules affect the bytes.
  if (is_target_file(target)) compile.target_file = target;
  MOEC_ASSIGN(compile.passes.target, find_target(target));
  compile.chip = chip;
  if (!chip.empty()) {
    MOEC_ASSIGN(compile.passes.target, for_chip(std::move(compile.passes.target), chip));
  }
  compile.passes.attention = compile.passes.target.attention;
  compile.build.dtype = compile.passes.target.dtype;
  // 0: not chosen yet. The plan sets the number of slices.
  compile.build.head_slices = 0;
  compile.cuts.budgets = target_budgets(compile.passes.target);
  // 0 selects the default number of jobs; the default of the struct is 1.
  options.resources.jobs = 0;
  return options;
}

Status apply(const OptionRow& row, const Words& words, ExportOptions& options) {
  // Options need not come from CLI11, whose validators check the words of the command line.
  for (const std::string& word : words)
    if (std::string wrong = row.wrong_word(word); !wrong.empty())
      return fail("export.flags", fmt::format("{}: {}", row.long_name(), wrong),
                  fmt::format("run moec export --help-all for the values of {}", row.long_name()));
  if (row.parse) return row.parse(words, options);
  if (row.set) row.set(words, options);
  return {};
}

// Only an engine with an op for mixtures of experts runs the form op.
Status check_routing(const Target& target, RoutingForm routing) {
  if (routing != RoutingForm::op || target.engine.has_moe) return {};
  return fail(
      "export.flags",
      fmt::format("--routing op requires an op for mixtures of experts, which the engine of "
                  "target {} does not have",
                  target.name),
      "pass --routing rank, or --target onnx for onnxruntime on CPUs");
}

// Derives the settings that depend on several options.
Status derive(const GivenOptions& given, ExportOptions& options) {
  CompileOptions& compile = options.compile;
  BuildOptions& build = compile.build;
  Target& target = compile.passes.target;
  if (!given.contains("--form")) target.projection = projection_for(target, build.weights);
  MOEC_TRY(check_weight_forms(target, build.weights));
  MOEC_TRY(check_routing(target, compile.passes.routing));
  if (target.projection == ProjectionForm::matmul) {
    // The projection may also follow from --weights, so the check of a single row cannot find this
    // conflict.
    if (given.contains("--layout"))
      return fail("export.flags", "--layout has no effect with --form matmul",
                  "omit --layout, or choose --weights that do not imply --form matmul");
    build.layout = Layout::rows;
  }
  // Scores of experts often differ by less than the resolution of f16. Without casts, the passes
  // use pairs of f16 numbers instead.
  build.wide_router = build.dtype == DType::f16 && !target.limits.no_casts;
  // cache_form() replaces this for models without a cache (models/plan/fit_target.h).
  build.cache = target.has_state && compile.kv != "io" ? CacheForm::blend : CacheForm::append;
  build.host_routing = compile.passes.routing == RoutingForm::host;
  if (compile.devices.devices.empty() && !compile.devices.loads.empty())
    return fail("plan.device_value", "--loads requires devices, but no --device was given",
                "pass --device NAME=MEMORY for each device");
  if (!given.contains("--expert-align") && compile.cuts.experts_per_shard > 0)
    options.output.expert_alignment = kExpertAlignment;
  // The ane-book runtimes require these cuts, whatever the rows set.
  if (options.output.compat == Compat::ane_book) cut_for_ane_book(compile.cuts);
  return {};
}

std::string word_of(const GivenOptions& given, std::string_view name, std::string_view otherwise) {
  const auto words = given.find(name);
  return words == given.end() ? std::string(otherwise) : words->second.front();
}

Result<ExportOptions> resolve_for(const GivenOptions& given, const ExportOptions& base,
                                  const std::string& target, const std::string& chip) {
  MOEC_ASSIGN(ExportOptions options, preferred(base, target, chip));
  // In table order, not in the order of the command line, so equal options give equal results.
  for (const OptionRow* row : option_rows()) {
    const auto words = given.find(row->long_name());
    if (words != given.end() && row->has_effect(options.compile.passes.target))
      MOEC_TRY(apply(*row, words->second, options));
  }
  MOEC_TRY(derive(given, options));
  return options;
}

// The name becomes a subfolder of --out. A slash, "." or ".." would lead to another folder.
bool is_folder_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

// Several targets each get a folder with their name, so names must be distinct folder names.
Status check_target_names(std::span<const Target> targets) {
  std::set<std::string> names;
  for (const Target& target : targets) {
    if (!is_folder_name(target.name))
      return fail("export.flags",
                  fmt::format("the target name \"{}\" is not a valid folder name", target.name),
                  "rename the target in its file, or export for it separately");
    if (!names.insert(target.name).second)
      return fail("export.flags", fmt::format("--target has two targets named {}", target.name),
                  "rename one of them in its file, or export for each separately");
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
  // The chip applies to the targets that have chips. If none has any, for_chip() refuses it.
  const std::string chip = word_of(given, "--chip", "");
  const bool any_chips = std::any_of(targets.begin(), targets.end(), has_chips);
  std::vector<ExportOptions> all;
  for (size_t i = 0; i < targets.size(); ++i) {
    const bool applies = has_chips(targets[i]) || !any_chips;
    MOEC_ASSIGN(ExportOptions options, resolve_for(given, base, names[i], applies ? chip : ""));
    if (targets.size() > 1) {
      options.output.folder += "/" + targets[i].name;
      // Dumps of two targets have the same names, so each target gets a subfolder for them.
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
