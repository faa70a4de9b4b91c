#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontends/checkpoint/config_text.h"
#include "frontends/checkpoint/counted_normal.h"
#include "frontends/jobs/upcycle/dense_models.h"
#include "frontends/jobs/upcycle/provenance.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "ir/base/invariant.h"
#include "models/shards/check_model.h"
#include "models/shards/needed_tensors.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

struct Multiplied {
  int64_t multiply = 1, experts = 0, top_k = 0;
};

tl::unexpected<Diagnostics> unsupported_router(const std::string& source, const std::string& what) {
  return fail("upcycle.unsupported_router", "copies of experts would not be equal: " + what,
              "use another model", {.file = source});
}

Status check_router(const ModelConfig& model, const std::string& source) {
  if (model.moe.router_hidden > 0) return unsupported_router(source, "the router is an MLP");
  // Null slots are not copied, so the shares of experts and slots would change.
  if (model.moe.null_slots > 0)
    return unsupported_router(source, "a token may pick slots without an expert");
  // A second pick that masks the first one would always pick its copy.
  if (picks_two(model.moe.routing.score))
    return unsupported_router(source, "the second pick depends on the first one");
  return {};
}

Status check_options(const UpcycleOptions& options, const HfConfig& config) {
  const ExpertShape& shape = options.shape;
  const bool of_dense = shape.experts > 0 || shape.granularity > 0 || shape.shared_width > 0 ||
                        !shape.layers.empty() || !shape.arch.empty() ||
                        !options.sources.experts.empty() || !options.sources.adapters.empty();
  if (of_dense)
    return fail("upcycle.from_moe",
                "--from-moe copies experts unchanged: it accepts only --multiply, --top-k, --noise "
                "and --seed",
                "leave out the other expert options", {.file = options.source});
  // The config of the text model is nested in such a model, and set_number() changes only the top
  // level.
  if (config.family->outer)
    return fail("upcycle.from_moe",
                fmt::format("{} is part of a larger model", config.family->model_type),
                "pass the text model alone", {.file = options.source});
  return check_router(config.model, options.source);
}

Result<Multiplied> resolve(const UpcycleOptions& options, const ModelConfig& model) {
  Multiplied sizes{options.sources.multiply};
  sizes.experts = model.moe.experts * sizes.multiply;
  // All copies of the experts that a token picked before.
  sizes.top_k =
      options.shape.top_k > 0 ? options.shape.top_k : model.moe.routing.top_k * sizes.multiply;
  if (sizes.top_k <= sizes.experts) return sizes;
  return fail("upcycle.top_k",
              fmt::format("a token cannot pick {} of {} experts", sizes.top_k, sizes.experts),
              "pass a smaller --top-k", {.file = options.source});
}

DuplicationTerms terms_of(const UpcycleOptions& options, const DenseModels& models,
                          const Multiplied& sizes) {
  DuplicationTerms terms{sizes.multiply, sizes.top_k, models.dense.model.moe.routing,
                         options.start.noise};
  const TensorRange* embed = models.weights.find(models.dense.model.names("embed"));
  const DType stored = embed == nullptr ? DType::f32 : embed->type.dtype;
  terms.narrow = options.dtype.value_or(stored) != DType::f32;
  return terms;
}

// ---- Tensors -----------------------------------------------------------------------------------

WeightView part_along(const WeightView& view, size_t axis, int64_t begin) {
  return then(view, SliceStep{static_cast<int64_t>(axis), begin, 1});
}

class Copies {
 public:
  Copies(const UpcycleOptions& options, const DenseModels& models, const DuplicationTerms& terms)
      : options_(options), models_(models), terms_(terms) {}

  // Appends the new tensors of a role. The new model has the same roles as the source.
  Status add(const NeededRole& before, const NeededRole& after,
             std::vector<NewTensor>& tensors) const {
    const TensorNames& names = models_.dense.model.names;
    for (int64_t e = 0; e < after.experts; ++e) {
      // Copies of an expert are adjacent, so expert e is a copy of e / multiply.
      const WeightView view = stored(names(before.role, before.layer, e / terms_.multiply));
      tensors.push_back(tensor(names(after.role, after.layer, e), view.source_type.dims,
                               {copy(view)}, after.role, view));
    }
    // Separate tensors per expert leave nothing to stack.
    if (after.experts > 0) return {};
    const std::string name = names(before.role, before.layer);
    const WeightView view = stored(name);
    MOEC_ASSIGN(std::vector<TensorPiece> pieces, repeated(view, before, after));
    tensors.push_back(tensor(name, after.dims, std::move(pieces), after.role, view));
    return {};
  }

 private:
  WeightView stored(const std::string& name) const {
    return tensor_view(name, models_.weights.find(name)->type);
  }
  static TensorPiece copy(WeightView view) { return {std::move(view), {}, {}, 1, {}}; }

  // Only the last matrix is scaled, because the activation is not linear.
  double factor_of(std::string_view role) const {
    if (role.starts_with("expert_down") || role.starts_with("experts_down"))
      return terms_.down_factor();
    // Each copy gets a fraction of the score to which the bias is added.
    return role.starts_with("router_choice_bias") ? terms_.choice_factor() : 1;
  }

  NewTensor tensor(const std::string& name, const Dims& dims, std::vector<TensorPiece> pieces,
                   std::string_view role, const WeightView& view) const {
    for (TensorPiece& piece : pieces) piece.factor = factor_of(role);
    return {name, {options_.dtype.value_or(view.source_type.dtype), dims}, std::move(pieces)};
  }

  Result<std::vector<TensorPiece>> repeated(const WeightView& view, const NeededRole& before,
                                            const NeededRole& after) const {
    // Roles without an axis of experts are copied unchanged.
    if (before.dims == after.dims) return std::vector<TensorPiece>{copy(view)};
    const auto differing =
        std::mismatch(before.dims.begin(), before.dims.end(), after.dims.begin(), after.dims.end());
    const auto axis = static_cast<size_t>(differing.first - before.dims.begin());
    if (before.dims.size() != after.dims.size() ||
        after.dims[axis] != before.dims[axis] * terms_.multiply)
      return unsupported_router(options_.source,
                                fmt::format("{} has no axis of experts", before.role));
    // Along axis 0, each copy is a piece, so that noise can be added to some of them. Other axes
    // need one concatenated view.
    return axis == 0 ? along_first(view, before) : std::vector<TensorPiece>{along(view, axis)};
  }

  std::vector<TensorPiece> along_first(const WeightView& view, const NeededRole& role) const {
    std::vector<TensorPiece> pieces;
    for (int64_t e = 0; e < role.dims[0]; ++e)
      for (int64_t m = 0; m < terms_.multiply; ++m) {
        pieces.push_back(copy(part_along(view, 0, e)));
        // The first copy stays exact, so that one copy of each expert keeps its router row.
        if (role.role != "router" || m == 0 || options_.start.noise == 0) continue;
        const std::string purpose =
            fmt::format("router of layer {}, copy {} of {}", role.layer, m, e);
        pieces.back().noise = Noise{options_.start.noise, seed_for(options_.start.seed, purpose)};
      }
    return pieces;
  }

  TensorPiece along(const WeightView& view, size_t axis) const {
    std::vector<WeightView> parts;
    for (int64_t e = 0; e < view.source_type.dims[axis]; ++e)
      for (int64_t m = 0; m < terms_.multiply; ++m) parts.push_back(part_along(view, axis, e));
    return copy(concat_view(static_cast<int64_t>(axis), std::move(parts)));
  }

  const UpcycleOptions& options_;
  const DenseModels& models_;
  const DuplicationTerms& terms_;
};

Result<std::vector<NewTensor>> plan_copies(const UpcycleOptions& options, const DenseModels& models,
                                           const DuplicationTerms& terms,
                                           const ModelConfig& result) {
  const std::vector<NeededRole> before = needed_roles(models.dense.model),
                                after = needed_roles(result);
  // Both models have the same roles; only the numbers of experts differ.
  MOEC_CHECK(before.size() == after.size(), "{} roles become {}", before.size(), after.size());
  const Copies copies(options, models, terms);
  std::vector<NewTensor> tensors;
  for (size_t i = 0; i < before.size(); ++i) MOEC_TRY(copies.add(before[i], after[i], tensors));
  return tensors;
}

}  // namespace

Result<UpcyclePlan> plan_multiplied(const UpcycleOptions& options) {
  MOEC_ASSIGN(DenseModels models, open_models(options));
  MOEC_TRY(check_options(options, models.config));
  const ModelConfig& before = models.dense.model;
  MOEC_ASSIGN(const Multiplied sizes, resolve(options, before));
  // Changes the source's config, so keys unknown to moec are kept.
  ordered_json config = config_json(models.config_text);
  MOEC_TRY(set_number(models.config, "experts", sizes.experts, "upcycle.from_moe", config));
  MOEC_TRY(set_number(models.config, "top_k", sizes.top_k, "upcycle.from_moe", config));
  UpcyclePlan plan;
  // Reads the config back, so that the plan uses what a reader of the result will see.
  MOEC_ASSIGN(HfConfig read,
              read_config(config_text(config), "config.json", models.user_family.get()));
  if (Diagnostics findings = check_model(read.model); !findings.empty())
    return fail(std::move(findings));
  plan.result = std::move(read.model);
  // The copied tensors keep the names of the source.
  plan.result.names = before.names;
  // The head stays tied or untied as in the source, whose tensors it has.
  plan.result.head = before.head;
  plan.group = sizes.multiply;
  plan.experts_before = before.moe.experts;
  const DuplicationTerms terms = terms_of(options, models, sizes);
  plan.exact = exactness(terms);
  plan.factors.down = terms.down_factor();
  MOEC_ASSIGN(plan.tensors, plan_copies(options, models, terms, plan.result));
  // Must follow exactness() and down_factor(), because the provenance contains their results.
  finish_config(options, plan.exact, plan.factors, config);
  plan.config_text = config_text(config);
  plan.weights = std::move(models.weights);
  plan.notes = std::move(models.notes);
  // Moved last, because `before` refers to this model.
  plan.source = std::move(models.dense.model);
  return plan;
}

}  // namespace moec
