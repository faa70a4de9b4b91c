#include "frontends/jobs/prune/plan_prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "backends/weights/calibration/checkpoint_identity.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/checkpoint/config_text.h"
#include "frontends/jobs/prune/cut_tensors.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/hf/index.h"
#include "frontends/sources/open_source.h"
#include "ir/model/model_experts.h"
#include "models/shards/check_model.h"
#include "models/tensors/ignored_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

// A source with its config, before any choice.
struct OpenedSource {
  std::shared_ptr<const Family> user_family;  // of `config`, if the user defines one
  Checkpoint checkpoint;
  std::string config_text;
  HfConfig config;
};

Result<OpenedSource> open_prunable(const PruneOptions& options) {
  if (names_gguf(options.source))
    return fail("prune.source_gguf",
                "moec prune writes a checkpoint folder, but this is a GGUF file",
                "pass the checkpoint folder, or cut the file with moec split --expert-list",
                {.file = options.source});
  MOEC_ASSIGN(Checkpoint checkpoint, open_source(options.source, options.family, equal_tensors));
  if (expert_grid(checkpoint.config).layers.empty())
    return fail("prune.no_experts", "the model has no routed experts",
                "pass a Mixture-of-Experts model", {.file = options.source});
  if (checkpoint.config.stored.coding == WeightCoding::mlx)
    return fail("prune.tensor", "the unsigned integers of MLX checkpoints cannot be written",
                "prune the checkpoint that was converted to MLX", {.file = options.source});
  if (is_of_bitsandbytes(checkpoint.config.stored.coding))
    return fail("prune.tensor", "the matrices of bitsandbytes checkpoints cannot be cut",
                "prune the checkpoint that was quantized", {.file = options.source});
  OpenedSource opened{nullptr, std::move(checkpoint), {}, {}};
  MOEC_ASSIGN(opened.config_text, source_config_text(options.source));
  const std::string path = config_path(options.source);
  MOEC_ASSIGN(std::optional<Family> family, family_of(options.family, opened.config_text, path));
  if (family) opened.user_family = std::make_shared<const Family>(std::move(*family));
  MOEC_ASSIGN(opened.config, read_config(opened.config_text, path, opened.user_family.get()));
  return opened;
}

// ---- The config --------------------------------------------------------------------------------

// Lists such as modules_to_not_convert can name single experts, whose numbers change.
Status check_names_in_config(const std::string& text, const std::string& file) {
  constexpr std::string_view kExperts = "experts.";
  for (size_t at = text.find(kExperts); at != std::string::npos; at = text.find(kExperts, at)) {
    at += kExperts.size();
    if (at < text.size() && text[at] >= '0' && text[at] <= '9')
      return fail("prune.config", "the config names single experts, whose numbers would change",
                  "remove these names from config.json if transformers does not need them",
                  {.file = file});
  }
  return {};
}

// The object with the keys of the text model.
ordered_json& text_config(const HfConfig& config, ordered_json& json) {
  return config.family->outer ? json[config.family->outer->key] : json;
}

bool has_key_of(const HfConfig& config, const std::string& concept_name, const ordered_json& json) {
  const auto found = config.family->concepts.find(concept_name);
  return found != config.family->concepts.end() &&
         std::any_of(found->second.keys.begin(), found->second.keys.end(),
                     [&](const std::string& key) { return json.contains(key); });
}

ordered_json prune_provenance(const PruneOptions& options, const PrunePlan& plan) {
  ordered_json json = {{"tool", std::string("moec ") + MOEC_VERSION},
                       {"source", last_component(options.source)},
                       {"experts", plan.source.moe.experts}};
  if (options.mask.empty()) json["by"] = enum_name(options.by);
  json["kept"] = to_string(plan.choice.kept);
  return json;
}

// Writes the config of the pruned model and reads it back, so that the plan uses what a reader of
// the result will see.
Status plan_config(const PruneOptions& options, const OpenedSource& opened, bool left_out,
                   PrunePlan& plan) {
  const HfConfig& config = opened.config;
  MOEC_TRY(check_names_in_config(opened.config_text, config_path(options.source)));
  ordered_json json = config_json(opened.config_text);
  ordered_json& text = text_config(config, json);
  MOEC_TRY(set_number(config, "experts", plan.choice.count, "prune.config", text));
  // Layers whose tensors are left out must not be expected.
  if (left_out && has_key_of(config, "mtp_layers", text))
    MOEC_TRY(set_number(config, "mtp_layers", 0, "prune.config", text));
  json[kPruneKey] = prune_provenance(options, plan);
  plan.config_text = config_text(json);
  MOEC_ASSIGN(HfConfig read,
              read_config(plan.config_text, "config.json", opened.user_family.get()));
  if (Diagnostics findings = check_model(read.model); !findings.empty())
    return fail(std::move(findings));
  plan.result = std::move(read.model);
  // The tensors keep the names of the source, and the head stays tied or untied as there.
  plan.result.names = plan.source.names;
  plan.result.head = plan.source.head;
  return {};
}

// ---- Tensors -----------------------------------------------------------------------------------

// Patterns of tensors that the text model does not use and that contain experts. Their experts
// cannot be chosen, because no profile measures them.
std::set<std::string> patterns_with_experts(const ModelConfig& model, const WeightTable& weights) {
  std::set<std::string> patterns;
  for (const auto& [name, range] : weights.tensors) {
    const std::string* pattern = ignoring_pattern(model, name);
    // Patterns of single experts after the last one are those of kFurtherExpert. A pattern that
    // starts with * names a part of any matrix, such as its shape: it follows the matrix.
    if (pattern && !pattern->starts_with('*') && name.find(".experts.") != std::string::npos &&
        pattern->find(".experts.") == std::string::npos)
      patterns.insert(*pattern);
  }
  return patterns;
}

Status check_copyable(const std::string& folder) {
  MOEC_ASSIGN(const FolderWeights stored, read_folder_weights(folder));
  if (stored.not_representable.empty()) return {};
  const auto& [name, why] = *stored.not_representable.begin();
  return fail("prune.tensor", "the tensor cannot be copied: " + why,
              "convert the tensor, or remove it from the checkpoint", {.tensor = name});
}

// The names of the source's tensors in the order of its files, for sequential reads.
std::vector<std::string> names_by_place(const WeightTable& weights) {
  std::vector<std::string> names;
  for (const auto& [name, range] : weights.tensors) names.push_back(name);
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    const TensorRange &left = *weights.find(a), &right = *weights.find(b);
    return std::tie(left.file, left.offset, a) < std::tie(right.file, right.offset, b);
  });
  return names;
}

Status plan_tensors(const std::set<std::string>& left_out, PrunePlan& plan) {
  MOEC_ASSIGN(const TensorCuts cuts, TensorCuts::plan(plan.source, plan.result, plan.choice.kept));
  size_t dropped = 0;
  for (const std::string& name : names_by_place(plan.weights)) {
    const Type& type = plan.weights.find(name)->type;
    plan.before.all += static_cast<uint64_t>(type.bytes());
    const std::string* pattern = ignoring_pattern(plan.source, name);
    if (pattern && left_out.contains(*pattern)) {
      ++dropped;
      continue;
    }
    MOEC_ASSIGN(CutResult cut, cuts.cut(name, type));
    if (cut.experts) plan.before.experts += static_cast<uint64_t>(type.bytes());
    if (!cut.tensor) continue;
    const auto bytes = static_cast<uint64_t>(cut.tensor->type.bytes());
    plan.after.all += bytes;
    if (cut.experts) plan.after.experts += bytes;
    plan.tensors.push_back(std::move(*cut.tensor));
  }
  if (dropped > 0)
    plan.notes.push_back({Severity::note,
                          "prune.left_out",
                          fmt::format("{} tensors of {} are left out: their experts have no scores",
                                      dropped, *left_out.begin()),
                          {},
                          {}});
  return {};
}

// ---- Notes -------------------------------------------------------------------------------------

Status note_profile(const PruneOptions& options, const OpenedSource& opened,
                    const ExpertProfile& profile, PrunePlan& plan) {
  if (plan.choice.unused > 0)
    plan.notes.push_back(
        {Severity::note,
         "prune.unused",
         fmt::format("the profile's text selected none of {} kept experts", plan.choice.unused),
         "analyze a longer text, or keep fewer experts",
         {.file = options.profile}});
  if (profile.checkpoint.empty()) return {};
  MOEC_ASSIGN(const std::string identity,
              checkpoint_identity(opened.config_text, opened.checkpoint.weights));
  if (identity != profile.checkpoint)
    plan.notes.push_back({Severity::warning,
                          "prune.other_checkpoint",
                          "the profile was measured on another checkpoint",
                          "analyze this checkpoint if its experts differ",
                          {.file = options.profile}});
  return {};
}

void note_routing(PrunePlan& plan) {
  const MoeConfig& moe = plan.source.moe;
  plan.routing = kept_routing(moe.routing, moe.choice_bias);
  // A mask also excludes experts from the softmax over the logits near the picked one.
  if (picks_two(moe.routing.score)) plan.routing = KeptRouting::masked;
  if (plan.routing != KeptRouting::inflated) return;
  plan.notes.push_back({Severity::note,
                        "prune.inflated",
                        "the router uses shares of a softmax over all experts, which grow without "
                        "the removed ones",
                        "compare the result with the source on a text: moec compare",
                        {}});
}

}  // namespace

Result<PrunePlan> plan_prune(const PruneOptions& options) {
  MOEC_ASSIGN(OpenedSource opened, open_prunable(options));
  MOEC_TRY(check_copyable(options.source));
  PrunePlan plan;
  plan.source = opened.checkpoint.config;
  plan.notes = std::move(opened.checkpoint.warnings);
  const ExpertGrid grid = expert_grid(plan.source);
  std::optional<ExpertProfile> profile;
  if (!options.profile.empty()) {
    MOEC_ASSIGN(profile, read_expert_profile(options.profile));
    MOEC_TRY(check_profile(*profile, grid, options.profile));
  }
  MOEC_ASSIGN(plan.choice, choose_experts(options, grid, plan.source.moe.routing, profile));
  if (profile) MOEC_TRY(note_profile(options, opened, *profile, plan));
  note_routing(plan);
  plan.weights = std::move(opened.checkpoint.weights);
  const std::set<std::string> left_out = patterns_with_experts(plan.source, plan.weights);
  MOEC_TRY(plan_config(options, opened, !left_out.empty(), plan));
  MOEC_TRY(plan_tensors(left_out, plan));
  return plan;
}

}  // namespace moec
