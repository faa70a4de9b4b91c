#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "frontends/checkpoint/config_text.h"
#include "frontends/jobs/upcycle/dense_models.h"
#include "frontends/jobs/upcycle/plan_experts.h"
#include "frontends/jobs/upcycle/provenance.h"
#include "frontends/jobs/upcycle/target_config.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "ir/base/nearest.h"
#include "models/shards/check_model.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

// The new model in one architecture, with the properties that the architecture cannot express.
struct Candidate {
  const TargetArch* arch = nullptr;
  ordered_json config;
  ModelConfig model;
  std::vector<std::string> misfits;
};

ExpertSizes sizes_of(const ResolvedShape& shape, const ExpertStart& start, const TargetArch& arch) {
  return {shape.experts,    shape.top_k, shape.expert_ff, shared_units(shape, arch),
          start.normalised, shape.layers};
}

std::vector<std::string> findings_text(const Diagnostics& findings) {
  std::vector<std::string> texts;
  for (const Diagnostic& finding : findings) texts.push_back(finding.cause);
  return texts;
}

Candidate try_arch(const TargetArch& arch, const DenseModels& models, const ResolvedShape& shape,
                   const ExpertStart& start) {
  Candidate candidate{&arch, {}, {}, {}};
  if (arch.same_family && models.config.family->model_type != arch.model_type) {
    candidate.misfits = {fmt::format("models other than a dense {}, and this one is a {}",
                                     arch.model_type, models.config.family->model_type)};
    if (arch.model_type == "deepseek_v3") candidate.misfits = {"attention without a latent"};
    return candidate;
  }
  candidate.misfits = shape_misfits(shape, models.dense.model, start, arch);
  // The config is written and read back, so that the check sees the config as it will be stored.
  candidate.config = target_config(arch, sizes_of(shape, start, arch), models.config,
                                   config_json(models.config_text));
  auto read = read_config(config_text(candidate.config), "config.json");
  // A config that moec cannot read is a misfit of the architecture, not an error.
  Diagnostics findings = read ? check_model(read->model) : read.error();
  for (std::string& text : findings_text(findings)) candidate.misfits.push_back(std::move(text));
  if (!read) return candidate;
  for (std::string& misfit : misfits(models.dense.model, read->model))
    candidate.misfits.push_back(std::move(misfit));
  candidate.model = std::move(read->model);
  return candidate;
}

tl::unexpected<Diagnostics> no_arch(const std::string& source, const std::vector<Candidate>& tried,
                                    std::string next) {
  std::vector<std::string> causes;
  for (const Candidate& candidate : tried)
    causes.push_back(fmt::format("{} cannot represent {}", candidate.arch->model_type,
                                 fmt::join(candidate.misfits, ", ")));
  return fail("upcycle.arch", fmt::format("{}", fmt::join(causes, "; ")), std::move(next),
              {.file = source});
}

std::vector<std::string_view> arch_names() {
  std::vector<std::string_view> names;
  for (const TargetArch& arch : target_archs()) names.push_back(arch.model_type);
  return names;
}

// Returns the requested architecture, or the first that can represent the model.
Result<Candidate> choose_arch(const UpcycleOptions& options, const DenseModels& models,
                              const ResolvedShape& shape) {
  const std::string& asked = options.shape.arch;
  if (!asked.empty() && find_target_arch(asked) == nullptr)
    return fail("upcycle.arch",
                fmt::format("unknown architecture {}{}", asked, did_you_mean(asked, arch_names())),
                fmt::format("choose one of {}", fmt::join(arch_names(), ", ")));
  std::vector<Candidate> tried;
  std::vector<std::string_view> fitting;
  for (const TargetArch& arch : target_archs()) {
    // Tries all architectures even if one was requested, so that the message can name those that
    // fit.
    Candidate candidate = try_arch(arch, models, shape, options.start);
    const bool fits = candidate.misfits.empty(), is_asked = asked == arch.model_type;
    if (fits && (asked.empty() || is_asked)) return candidate;
    if (fits) fitting.push_back(arch.model_type);
    if (asked.empty() || is_asked) tried.push_back(std::move(candidate));
  }
  return no_arch(options.source, tried,
                 fitting.empty() ? "change --layers, --shared-width or the model"
                                 : fmt::format("choose one that can represent the model: {}",
                                               fmt::join(fitting, ", ")));
}

DType dtype_of(const DenseModels& models) {
  // The embedding stands for the type of all tensors, because checkpoints rarely mix types.
  const auto embed = models.weights.view(models.dense.model.names("embed"));
  return embed ? view_type(*embed)->dtype : DType::f32;
}

UpcycleTerms terms_of(const UpcycleOptions& options, const DenseModels& models,
                      const ResolvedShape& shape, const Candidate& chosen) {
  UpcycleTerms terms{shape.experts, shape.top_k, shape.granularity};
  terms.score = chosen.model.moe.routing.score;
  terms.normalised = options.start.normalised;
  terms.activation = models.dense.model.mlp.gating.activation;
  terms.start = options.start;
  terms.redrawn = shape.redrawn;
  // Models with adapters count as other models, because their weights differ.
  const bool changed = !options.sources.experts.empty() || !options.sources.adapters.empty();
  terms.models = changed ? std::ssize(models.parts) : 1;
  terms.other_model = changed;
  terms.gated_shared = shape.shared_width > 0 && chosen.arch->shared == SharedForm::gated;
  const DType stored = dtype_of(models), written = options.dtype.value_or(stored);
  // Narrow types round scaled weights; a change of type also rounds unscaled ones.
  terms.narrow = written != DType::f32;
  terms.narrowed = terms.narrow && written != stored;
  return terms;
}

void note_idle_shared(const ResolvedShape& shape, const TargetArch& arch, Diagnostics& notes) {
  const int64_t units = shared_units(shape, arch);
  if (shape.shared_width > 0 || units == 0) return;
  notes.push_back({Severity::note,
                   "upcycle.idle_shared",
                   fmt::format("{} requires a shared expert: moec adds one of {} units with zero "
                               "output, which training can use",
                               arch.model_type, units),
                   {},
                   {}});
}

// Adds a note about row sizes that PyTorch's grouped matrix product rejects. transformers runs
// experts with this product, which requires multiples of 16 bytes.
void note_odd_width(const ResolvedShape& shape, DType dtype, Diagnostics& notes) {
  constexpr int64_t kRowBytes = 16;
  if (shape.expert_ff * dtype_bytes(dtype) % kRowBytes == 0) return;
  notes.push_back({Severity::note,
                   "upcycle.odd_width",
                   fmt::format("rows of {} units in {} are not a multiple of {} bytes, which the "
                               "grouped matrix product of transformers requires",
                               shape.expert_ff, dtype_name(dtype), kRowBytes),
                   "choose another --granularity, or load with experts_implementation=\"eager\"",
                   {}});
}

// Adds a note with the number of source tensors that the new model does not use.
void note_left_out(const UpcyclePlan& plan, Diagnostics& notes) {
  std::set<std::string> used;
  for (const NewTensor& tensor : plan.tensors)
    for (const TensorPiece& piece : tensor.pieces)
      for_each_tensor(piece.view,
                      [&](const TensorSource& source, const Type&) { used.insert(source.name); });
  size_t count = 0;
  std::string first;
  for (const auto& [name, range] : plan.weights.tensors) {
    // Tensors of other models are left out by design: only their feed-forward parts are used.
    if (name.starts_with(kOtherModel) || used.contains(name)) continue;
    if (count++ == 0) first = name;
  }
  if (count > 0)
    notes.push_back({Severity::note,
                     "upcycle.left_out",
                     fmt::format("the new model does not use {} tensors of the source", count),
                     {},
                     {.tensor = first}});
}

}  // namespace

Result<UpcyclePlan> plan_upcycle(const UpcycleOptions& options) {
  MOEC_ASSIGN(DenseModels models, open_models(options));
  const ModelConfig& dense = models.dense.model;
  MOEC_ASSIGN(const ResolvedShape shape, resolve_shape(options, dense, std::ssize(models.parts)));
  MOEC_ASSIGN(Candidate chosen, choose_arch(options, models, shape));
  const UpcycleTerms terms = terms_of(options, models, shape, chosen);
  const DType stored = dtype_of(models);
  UpcyclePlan plan;
  // verify_upcycle() counts groups of this size.
  plan.group = shape.equal_rows();
  plan.factors = part_factors(terms);
  plan.exact = exactness(terms);
  MOEC_ASSIGN(plan.tensors, plan_experts({models.dense, models.parts, models.weights, chosen.model,
                                          shape, options.start, plan.factors, options.dtype}));
  finish_config(options, plan.exact, plan.factors, chosen.config);
  plan.config_text = config_text(chosen.config);
  // Must follow plan_experts(), which reads the table.
  plan.weights = std::move(models.weights);
  plan.notes = std::move(models.notes);
  note_idle_shared(shape, *chosen.arch, plan.notes);
  note_odd_width(shape, options.dtype.value_or(stored), plan.notes);
  note_left_out(plan, plan.notes);
  plan.source = std::move(models.dense.model);
  plan.result = std::move(chosen.model);
  return plan;
}

}  // namespace moec
