#include "frontends/sources/hf/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "frontends/sources/hf/absent_files.h"
#include "frontends/sources/hf/config.h"
#include "frontends/sources/hf/quant_states.h"
#include "frontends/sources/hf/tensor_check.h"
#include "ir/base/regular_file.h"
#include "models/shards/check_model.h"
#include "models/tensors/ignored_tensors.h"

namespace moec {
namespace {

void append(Diagnostics& to, Diagnostics from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Warns about tensors that the IR cannot represent, which would otherwise be dropped silently.
void warn_of_unrepresentable_tensors(const FolderWeights& weights, Checkpoint& checkpoint) {
  for (const auto& [name, why] : weights.not_representable)
    if (ignoring_pattern(checkpoint.config, name) == nullptr)
      checkpoint.warnings.push_back({Severity::warning,
                                     "hf.tensor.left_out",
                                     "this tensor is not used: " + why,
                                     {},
                                     {.tensor = name}});
}

// Replaces each number in a pattern with "N", so that patterns that differ only by expert become
// equal.
std::string without_numbers(std::string_view pattern) {
  std::string text;
  for (const char c : pattern) {
    // Only a number at the beginning of a component of the name is replaced.
    const bool is_digit = c >= '0' && c <= '9', begins = text.empty() || text.back() == '.';
    if (is_digit && (begins || text.ends_with(".N"))) {
      if (begins) text += 'N';
    } else {
      text += c;
    }
  }
  return text;
}

// Adds the note hf.text_model about tensors that are omitted because they are not part of the text
// model.
void note_left_out(const FolderWeights& weights, const Family& family, Checkpoint& checkpoint) {
  // Only models with an outer config have parts other than the text model.
  if (!family.outer) return;
  std::map<std::string, size_t> ignored;
  for (const auto& [name, range] : weights.table.tensors)
    if (const std::string* pattern = ignoring_pattern(checkpoint.config, name))
      ++ignored[without_numbers(*pattern)];
  std::string parts;
  for (const auto& [pattern, count] : ignored)
    parts += fmt::format("{}{} ({} tensors)", parts.empty() ? "" : ", ", pattern, count);
  checkpoint.warnings.push_back(
      {Severity::note,
       "hf.text_model",
       fmt::format("only the text model of \"{}\" is read; omitted: {}", family.outer->model_type,
                   parts.empty() ? "nothing" : parts),
       {},
       {}});
}

// Returns true for a file that contains a whole model, such as a GGUF file. Other files in its
// folder do not belong to the model.
bool is_one_file(const std::string& source) {
  std::error_code error;
  return !source.ends_with(".json") && std::filesystem::is_regular_file(source, error);
}

}  // namespace

std::string config_path(const std::string& source) {
  return source.ends_with(".json") || is_one_file(source) ? source : source + "/config.json";
}

std::string source_folder(const std::string& source) {
  if (is_one_file(source)) return source;
  return std::filesystem::path(config_path(source)).parent_path().string();
}

Result<std::string> read_config_text(const std::string& source) {
  const std::string path = config_path(source);
  std::error_code error;
  // exists() is true for a dangling link, because symlink_status() does not follow it. The error of
  // reading the link is more precise than that of a missing file.
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error)))
    return fail(explain_no_config(path));
  return read_text_file(path, kMaxConfigBytes);
}

Result<HfConfig> read_config_of(const std::string& source, const Family* user_family) {
  MOEC_ASSIGN(const std::string text, read_config_text(source));
  return read_config(text, config_path(source), user_family);
}

Result<ExplainedConfig> explain_config_of(const std::string& source, const Family* user_family) {
  MOEC_ASSIGN(const std::string text, read_config_text(source));
  return explain_config(text, config_path(source), user_family);
}

Result<Checkpoint> open_checkpoint(const std::string& folder, TensorsEqual& same,
                                   const Family* user_family) {
  MOEC_ASSIGN(HfConfig config, read_config_of(folder, user_family));
  // Precedes the tensors, because a family for plans need not describe them exactly.
  MOEC_TRY(refuse_plan_only(config.model.family, config.family->plan_only, config_path(folder)));
  MOEC_ASSIGN(FolderWeights weights, read_folder_weights(folder));
  resolve_names(*config.family, weights, config.model);
  // Precedes check_model() and check_tensors(), because the head can become a needed tensor.
  MOEC_TRY(untie_own_head(config.model, weights.table, same, config.warnings));
  Diagnostics findings = check_model(config.model);
  // Precedes check_tensors(), because shapes depend on the size of blocks.
  if (findings.empty()) MOEC_TRY(read_quant_states(config.model, weights));
  // The dims of tensors follow from the model, so they are compared only if it is consistent.
  if (findings.empty()) findings = check_tensors(config, weights);
  if (!findings.empty()) {
    for (Diagnostic& finding : findings)
      if (finding.place.file.empty()) finding.place.file = folder;
    return fail(std::move(findings));
  }
  Checkpoint checkpoint{std::move(config.model), {}, std::move(config.warnings)};
  append(checkpoint.warnings, std::move(weights.warnings));
  warn_of_unrepresentable_tensors(weights, checkpoint);
  note_left_out(weights, *config.family, checkpoint);
  checkpoint.weights = std::move(weights.table);
  return checkpoint;
}

Result<HfConfig> open_config(const std::string& source, const Family* user_family) {
  MOEC_ASSIGN(HfConfig config, read_config_of(source, user_family));
  if (Diagnostics findings = check_model(config.model); !findings.empty())
    return fail(std::move(findings));
  return config;
}

Result<Family> read_family_file(const std::string& path) {
  MOEC_ASSIGN(std::string text, read_text_file(path, kMaxConfigBytes));
  return load_family(text, path);
}

}  // namespace moec
