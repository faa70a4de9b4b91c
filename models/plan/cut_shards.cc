#include "models/plan/cut_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/at.h"
#include "ir/base/byte_text.h"
#include "ir/experts/expert_groups.h"
#include "ir/model/model_experts.h"
#include "models/plan/join_layers.h"
#include "models/plan/mlp_elements.h"
#include "models/plan/weight_sizes.h"
#include "models/shards/width_slices.h"

namespace moec {
namespace {

// Maximum slices of an MLP or an expert; bounds the number of shards of a model.
constexpr int64_t kMaxSlices = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Counts layers whose feed-forward part is of this kind.
int64_t count_layers(const ModelConfig& model, bool moe) {
  return std::count_if(model.layers.begin(), model.layers.end(),
                       [&](const LayerConfig& layer) { return layer.feeds() && layer.moe == moe; });
}

class Cutter {
 public:
  Cutter(const ModelConfig& model, const CutOptions& options, BuildOptions& build)
      : model_(model), options_(options), build_(build), sizes_(model, build) {}

  Result<std::vector<ShardCut>> run() {
    if (options_.fit_layers || options_.layers_per_shard > 0)
      cuts_.push_back(join_layers(model_, options_, build_));
    // Shards of whole layers are not cut further. If groups were also requested,
    // check_joined_layers() reports the conflict.
    const bool joined = build_.layers_per_shard > 0 && !groups_requested();
    if (count_layers(model_, true) > 0 && !joined) MOEC_TRY(cut_experts());
    if (count_layers(model_, false) > 0 && !joined) MOEC_TRY(cut_mlp());
    MOEC_TRY(cut_head());
    return std::move(cuts_);
  }

 private:
  bool groups_requested() const {
    return options_.experts_per_shard > 0 || !options_.expert_groups.empty();
  }
  const Budget& budget(ShardKind kind) const { return budget_of(options_.budgets, kind); }
  bool fits(ShardKind kind, int64_t bytes) const {
    return budget(kind).bytes == 0 || bytes <= budget(kind).bytes;
  }
  std::string budget_text(ShardKind kind) const { return decimal_bytes(budget(kind).bytes); }

  // Returns the error for a budget that no cut meets, unless exceeding budgets is allowed.
  Status refuse(ShardKind kind, std::string_view item, int64_t bytes) const {
    if (options_.allow_over_budget) return {};
    return fail("plan.budget",
                fmt::format("the budget of {} is below {} of {}", budget_text(kind), item,
                            decimal_bytes(bytes)),
                fmt::format("raise the budget to at least {} MB", megabytes_flag(bytes)));
  }

  // An MLP or an expert whose slices are shards of `kind`.
  struct SlicedMlp {
    ShardKind kind;
    WeightGroup group;
    std::string_view item;  // "an expert"
  };

  // The smallest number of slices such that a slice plus `fixed` bytes meets the kind's budget.
  Result<int64_t> slices_of(const SlicedMlp& sliced, const MlpElements& mlp, int64_t fixed) const {
    const int64_t most = std::min(mlp.width, kMaxSlices);
    if (most < 1) return 1;  // check_model() rejects such a width
    const auto largest = [&](int64_t slices) {
      // slice_widths() returns the widest slice first.
      return fixed + sizes_.mlp(sliced.group, mlp, slice_widths(mlp.width, slices).front());
    };
    for (int64_t slices = 1; slices <= most; ++slices)
      if (fits(sliced.kind, largest(slices))) return slices;
    MOEC_TRY(
        refuse(sliced.kind, fmt::format("the smallest slice of {}", sliced.item), largest(most)));
    return most;
  }

  // ---- Experts ---------------------------------------------------------------------------------

  // Bytes of the parts of an MoE layer; expert: per expert.
  struct MoeBytes {
    MoeElements elements;
    int64_t expert = 0, shared = 0, norm = 0, latent = 0, router = 0;
    int64_t repeated() const { return norm + latent; }  // bytes repeated in each shard with experts
  };

  MoeBytes moe_bytes() const {
    MoeBytes sizes{.elements = moe_elements(model_, build_)};
    sizes.expert = sizes_.whole(WeightGroup::experts, sizes.elements.expert);
    if (sizes.elements.shared.whole() > 0)
      sizes.shared = sizes_.whole(WeightGroup::shared, sizes.elements.shared);
    sizes.norm = sizes_.plain(sizes.elements.norm);
    sizes.latent = sizes_.latent(sizes.elements.latent);
    sizes.router = sizes_.plain(sizes.elements.router);
    return sizes;
  }

  // A layer within its budget stays whole: cut experts need host routing, which adds an edge and a
  // host decision per layer.
  Status cut_experts() {
    const MoeBytes sizes = moe_bytes();
    const int64_t all = model_.moe.experts;
    MOEC_TRY(check_requested(all));
    MOEC_TRY(read_parts());
    if (groups_requested()) {
      build_.host_routing = true;
      const int64_t requested = options_.experts_per_shard;
      return group_experts(sizes, requested > 0 ? requested : all);
    }
    if (options_.keep_moe_layers) return note_experts("the runtime does not support expert groups");
    const ShardKind kind = build_.host_routing ? ShardKind::experts : ShardKind::moe;
    const int64_t held = most_held();
    const int64_t whole = sizes.repeated() + (build_.host_routing ? 0 : sizes.router) +
                          sizes.shared + held * sizes.expert;
    if (budget(kind).bytes == 0) return note_experts("there is no budget");
    if (fits(kind, whole))
      return note_experts(fmt::format("all {} experts, {}, are within the budget of {}", held,
                                      decimal_bytes(whole), budget_text(kind)));
    build_.host_routing = true;
    return group_experts(sizes, all);
  }

  // The number of experts of the MoE layer whose shards have the most.
  int64_t most_held() const {
    int64_t most = 0;
    for (int64_t layer = 0; layer < std::ssize(model_.layers); ++layer)
      if (at(model_.layers, layer).moe)
        most = std::max<int64_t>(most, std::ssize(held_experts(layer, model_.moe.experts, build_)));
    return most;
  }

  // With an affine residual, the first group scales the residual stream, so every node would need
  // that group.
  Status read_parts() {
    if (options_.expert_groups.empty()) return {};
    if (model_.stream.residual == ResidualKind::affine || model_.norms_feed_forward())
      return fail("plan.expert_groups",
                  fmt::format("the first experts of each layer of {} {}, so every node needs "
                              "them",
                              model_.family,
                              model_.norms_feed_forward() ? "start a sum that is normalized"
                                                          : "scale the residual stream"),
                  "omit --expert-groups", {.file = options_.expert_groups});
    MOEC_ASSIGN(build_.experts.parts,
                read_expert_parts(options_.expert_groups, expert_grid(model_)));
    return {};
  }

  Status check_requested(int64_t all) const {
    const int64_t requested = options_.experts_per_shard;
    if (requested <= all) return {};
    return fail(
        "plan.experts_per_shard",
        fmt::format("groups of {} experts were requested, but a layer has {}", requested, all),
        fmt::format("choose 1 to {}", all));
  }

  // Chooses the smallest number of groups of at most `most` experts that meet the budget. If not
  // even one expert fits, slices single experts.
  Status group_experts(const MoeBytes& sizes, int64_t most) {
    // The first group includes the shared expert if it fits there with one expert. With parts per
    // node, every node would need this group. A norm on the sum requires a separate shard.
    const bool beside = build_.experts.parts.empty() && !model_.norms_feed_forward() &&
                        fits(ShardKind::experts, sizes.repeated() + sizes.shared + sizes.expert);
    const int64_t fixed = sizes.repeated() + (beside ? sizes.shared : 0);
    build_.experts_per_shard = std::clamp<int64_t>(room(sizes, fixed), 1, most);
    MOEC_ASSIGN(build_.slices.expert,
                slices_of({ShardKind::experts, WeightGroup::experts, "an expert"},
                          sizes.elements.expert, fixed));
    if (sizes.shared > 0 && !beside) {
      MOEC_ASSIGN(build_.slices.shared,
                  slices_of({ShardKind::shared, WeightGroup::shared, "the shared expert"},
                            sizes.elements.shared, sizes.norm));
    }
    note_groups(sizes);
    return {};
  }

  // Number of experts that fit into the budget of a group in addition to `fixed` bytes.
  int64_t room(const MoeBytes& sizes, int64_t fixed) const {
    const int64_t limit = budget(ShardKind::experts).bytes;
    if (limit == 0) return model_.moe.experts;
    // The result can be 0 or negative; group_experts() clamps it.
    return (limit - fixed) / std::max<int64_t>(sizes.expert, 1);
  }

  void note_groups(const MoeBytes& sizes) {
    const int64_t requested = options_.experts_per_shard;
    std::string reason =
        requested > 0 ? fmt::format("groups of at most {} were requested; ", requested) : "";
    if (!options_.expert_groups.empty())
      reason +=
          fmt::format("experts with the same groups in {} share shards; ", options_.expert_groups);
    if (budget(ShardKind::experts).bytes > 0)
      reason += fmt::format("{} experts of {} in a budget of {}", model_.moe.experts,
                            decimal_bytes(sizes.expert), budget_text(ShardKind::experts));
    else
      reason += "there is no budget";
    if (sizes.shared > 0 && build_.slices.shared == 0)
      reason +=
          fmt::format(", the shared one of {} in the first group", decimal_bytes(sizes.shared));
    note_experts(std::move(reason));
    if (build_.slices.shared > 0)
      cuts_.push_back({ShardKind::shared, build_.slices.shared,
                       fmt::format("{} in a budget of {}", decimal_bytes(sizes.shared),
                                   budget_text(ShardKind::shared))});
  }

  Status note_experts(std::string reason) {
    const auto groups = std::ssize(most_groups(model_, build_));
    cuts_.push_back({build_.host_routing ? ShardKind::experts : ShardKind::moe, groups,
                     std::move(reason), build_.slices.expert});
    return {};
  }

  // ---- Dense layers ----------------------------------------------------------------------------

  Status cut_mlp() {
    const auto [mlp, norm] = dense_elements(model_);
    MOEC_ASSIGN(build_.slices.mlp,
                slices_of({ShardKind::mlp, WeightGroup::mlp, "an MLP"}, mlp, sizes_.plain(norm)));
    if (build_.slices.mlp > 1)
      cuts_.push_back(
          {ShardKind::mlp, build_.slices.mlp,
           fmt::format("{} in a budget of {}", decimal_bytes(sizes_.whole(WeightGroup::mlp, mlp)),
                       budget_text(ShardKind::mlp))});
    return {};
  }

  // ---- The head --------------------------------------------------------------------------------

  Status cut_head() {
    // fit_to_target() has set the number of slices that the target's limit of channels requires.
    const int64_t for_channels = build_.head_slices;
    // A requested number of slices has priority over the budget.
    if (options_.head_slices > 0) {
      build_.head_slices = options_.head_slices;
      return note_head(fmt::format("{} slices were requested", options_.head_slices));
    }
    if (const int64_t limit = budget(ShardKind::lm_head).bytes; limit > 0) {
      const int64_t rows = head_rows(limit);
      if (rows < 1) MOEC_TRY(refuse(ShardKind::lm_head, "one row of the head", head_bytes(1)));
      build_.head_slices =
          std::max(for_channels, ceil_div(model_.logits(), std::max<int64_t>(rows, 1)));
    }
    if (build_.head_slices < options_.least_head_slices) {
      build_.head_slices = options_.least_head_slices;
      return note_head(fmt::format("at least {} slices were requested", build_.head_slices));
    }
    if (build_.head_slices > for_channels)
      return note_head(fmt::format("{} rows of {} bytes in a budget of {}", model_.logits(),
                                   sizes_.head(1),
                                   decimal_bytes(budget(ShardKind::lm_head).bytes)));
    return note_head(for_channels > 1 ? "the target's limit of channels" : "it fits");
  }

  // Bytes of a slice of the head and its norm.
  int64_t head_bytes(int64_t rows) const {
    const int64_t norms = facts_of(model_.norm.kind).bias ? 2 : 1;
    return sizes_.plain(model_.hidden * norms) + sizes_.head(rows);
  }

  // Maximum number of rows of the head within the limit.
  int64_t head_rows(int64_t limit) const {
    // Searches, because the bytes of a grouped palette are not linear in the number of rows.
    int64_t least = 0, most = model_.logits();
    while (least < most) {
      const int64_t middle = least + (most - least + 1) / 2;
      if (head_bytes(middle) <= limit)
        least = middle;
      else
        most = middle - 1;
    }
    return least;
  }

  Status note_head(std::string reason) {
    cuts_.push_back({ShardKind::lm_head, build_.head_slices, std::move(reason)});
    return {};
  }

  const ModelConfig& model_;
  const CutOptions& options_;
  BuildOptions& build_;
  WeightSizes sizes_;
  std::vector<ShardCut> cuts_;
};

}  // namespace

std::vector<int64_t> expert_groups(int64_t experts, const BuildOptions& options) {
  if (options.experts_per_shard == 0) return {experts};
  return balanced_parts(experts, ceil_div(experts, options.experts_per_shard));
}

std::vector<std::vector<int64_t>> expert_shards(int64_t layer, int64_t experts,
                                                const BuildOptions& options) {
  std::vector<int64_t> all(static_cast<size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  // Copies the partition, because a layer without one is added as one part with all experts.
  ExpertPartition parts = options.experts.parts;
  std::vector<std::vector<int64_t>> shards;
  for (const std::vector<int64_t>& part : parts.try_emplace(layer, 1, all).first->second) {
    auto next = part.begin();
    for (const int64_t count : expert_groups(std::ssize(part), options)) {
      // Groups are cut before masked experts leave them, so that the sums of the groups have the
      // order of an export with all experts.
      std::vector<int64_t> group(next, next + count);
      std::erase_if(group, [&](int64_t e) { return !options.experts.holds(layer, e); });
      if (!group.empty()) shards.push_back(std::move(group));
      next += count;
    }
  }
  return shards;
}

std::vector<int64_t> held_experts(int64_t layer, int64_t experts, const BuildOptions& options) {
  std::vector<int64_t> held;
  for (int64_t e = 0; e < experts; ++e)
    if (options.experts.holds(layer, e)) held.push_back(e);
  return held;
}

std::vector<int64_t> most_groups(const ModelConfig& model, const BuildOptions& options) {
  std::vector<int64_t> most;
  for (int64_t layer = 0; layer < std::ssize(model.layers); ++layer) {
    if (!at(model.layers, layer).moe) continue;
    std::vector<int64_t> sizes;
    for (const auto& experts : expert_shards(layer, model.moe.experts, options))
      sizes.push_back(std::ssize(experts));
    if (sizes.size() > most.size()) most = std::move(sizes);
  }
  return most;
}

Result<std::vector<ShardCut>> cut_shards(const ModelConfig& model, const CutOptions& options,
                                         BuildOptions& build) {
  return Cutter(model, options, build).run();
}

}  // namespace moec
