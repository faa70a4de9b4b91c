#include "models/plan/cut_shards.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/byte_text.h"
#include "models/build/needed_tensors.h"
#include "models/plan/join_layers.h"

namespace moec {
namespace {

constexpr int64_t kMega = 1'000'000;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The value of a flag in MB that allows so many bytes, rounded up: to whole MB, or to thousandths
// for small budgets, where a whole MB would be far more than needed.
std::string megabytes_from(int64_t bytes) {
  constexpr int64_t kKilo = 1000;
  if (bytes > 10 * kMega) return std::to_string(ceil_div(bytes, kMega));
  return fmt::format("{:.3f}", static_cast<double>(ceil_div(bytes, kKilo)) / kKilo);
}

int64_t moe_layers(const ModelConfig& model) {
  return std::count_if(model.layers.begin(), model.layers.end(),
                       [](const LayerConfig& layer) { return layer.moe; });
}

class Cutter {
 public:
  Cutter(const ModelConfig& model, const CutOptions& options, BuildOptions& build)
      : model_(model),
        options_(options),
        build_(build),
        storage_(options.count_as.value_or(storage_of(build.dtype))) {}

  Result<std::vector<ShardCut>> run() {
    if (options_.fit_layers || options_.layers_per_shard > 0)
      cuts_.push_back(join_layers(model_, options_, build_));
    const bool joined = build_.layers_per_shard > 0 && options_.experts_per_shard == 0;
    if (moe_layers(model_) > 0 && !joined) MOEC_TRY(cut_experts());
    MOEC_TRY(cut_head());
    return std::move(cuts_);
  }

 private:
  int64_t bytes(int64_t weights) const { return stored_bytes(weights, storage_); }
  const Budget& budget(ShardKind kind) const { return budget_of(options_.budgets, kind); }

  // How many items of `each` elements a budget holds beside `fixed` elements. It is at least one
  // for a budget of the target, since the report shows shards above such a budget.
  Result<int64_t> room(ShardKind kind, std::string_view item, int64_t fixed, int64_t each) const {
    const Budget& limit = budget(kind);
    const int64_t count = (weights_within(limit.bytes, storage_) - fixed) / each;
    if (count >= 1 || !limit.asked) return std::max<int64_t>(count, 1);
    const int64_t least = bytes(fixed + each);
    return fail("plan.budget",
                fmt::format("a budget of {} is smaller than one {} of {}",
                            decimal_bytes(limit.bytes), item, decimal_bytes(least)),
                fmt::format("The smallest budget that works is {} MB.", megabytes_from(least)));
  }

  // A layer within its budget stays whole: cut experts need host routing, which costs an edge and a
  // decision of the host at every layer.
  Status cut_experts() {
    const MoeElements sizes = moe_elements(model_);
    const int64_t all = model_.moe.experts;
    if (options_.experts_per_shard > 0) {
      build_.host_routing = true;
      build_.experts_per_shard = std::min(options_.experts_per_shard, all);
      return note(fmt::format("{} experts a shard were requested", options_.experts_per_shard));
    }
    const ShardKind kind = build_.host_routing ? ShardKind::experts : ShardKind::moe;
    const int64_t whole =
        sizes.norm + (build_.host_routing ? 0 : sizes.router) + sizes.shared + all * sizes.expert;
    if (budget(kind).bytes == 0) return note("there is no budget");
    if (bytes(whole) <= budget(kind).bytes)
      return note(fmt::format("all {} experts, {}, are within the budget of {}", all,
                              decimal_bytes(bytes(whole)), decimal_bytes(budget(kind).bytes)));
    return group_experts(sizes, all);
  }

  Status group_experts(const MoeElements& sizes, int64_t all) {
    const Budget& limit = budget(ShardKind::experts);
    const int64_t alone = sizes.norm + sizes.expert;
    // A shared expert is not cut. If it exceeds the target's budget by itself, the groups are sized
    // without it, and the report shows that the first one is too large.
    const bool beside = limit.asked || bytes(alone + sizes.shared) <= limit.bytes;
    MOEC_ASSIGN(const int64_t most,
                room(ShardKind::experts, sizes.shared > 0 ? "expert with the shared one" : "expert",
                     sizes.norm + (beside ? sizes.shared : 0), sizes.expert));
    build_.host_routing = true;
    build_.experts_per_shard = std::min(most, all);
    return note(
        fmt::format("{} experts of {} in a budget of {}{}", all, decimal_bytes(bytes(sizes.expert)),
                    decimal_bytes(budget(ShardKind::experts).bytes),
                    sizes.shared > 0 ? fmt::format(", the shared one of {} in the first group",
                                                   decimal_bytes(bytes(sizes.shared)))
                                     : ""));
  }

  Status note(std::string reason) {
    const auto groups = static_cast<int64_t>(expert_groups(model_.moe.experts, build_).size());
    cuts_.push_back(
        {build_.host_routing ? ShardKind::experts : ShardKind::moe, groups, std::move(reason)});
    return {};
  }

  Status cut_head() {
    const int64_t for_channels = build_.head_slices;
    if (options_.head_slices > 0) {
      build_.head_slices = options_.head_slices;
      return note_head(fmt::format("{} slices were requested", options_.head_slices));
    }
    if (budget(ShardKind::lm_head).bytes > 0) {
      MOEC_ASSIGN(const int64_t rows,
                  room(ShardKind::lm_head, "row of the head", model_.hidden, model_.hidden));
      build_.head_slices = std::max(for_channels, ceil_div(model_.logits(), rows));
    }
    if (build_.head_slices > for_channels)
      return note_head(fmt::format("{} rows of {} bytes in a budget of {}", model_.logits(),
                                   bytes(model_.hidden),
                                   decimal_bytes(budget(ShardKind::lm_head).bytes)));
    return note_head(for_channels > 1 ? "the target takes no more channels in one" : "it fits");
  }

  Status note_head(std::string reason) {
    cuts_.push_back({ShardKind::lm_head, build_.head_slices, std::move(reason)});
    return {};
  }

  const ModelConfig& model_;
  const CutOptions& options_;
  BuildOptions& build_;
  WeightStorage storage_;
  std::vector<ShardCut> cuts_;
};

}  // namespace

std::vector<int64_t> expert_groups(int64_t experts, const BuildOptions& options) {
  if (options.experts_per_shard == 0) return {experts};
  return balanced_parts(experts, ceil_div(experts, options.experts_per_shard));
}

// Sums over all layers and divides: all MoE layers of a model have the same sizes.
MoeElements moe_elements(const ModelConfig& model) {
  const int64_t layers = moe_layers(model);
  if (layers == 0) return {};
  MoeElements sizes;
  sizes.norm = model.hidden;
  for (const NeededRole& needed : needed_roles(model)) {
    if (needed.role.starts_with("expert")) sizes.expert += needed.elements();
    if (needed.role.starts_with("shared_")) sizes.shared += needed.elements();
    if (needed.role.starts_with("router")) sizes.router += needed.elements();
  }
  sizes.expert /= layers * model.moe.experts;
  sizes.shared /= layers;
  sizes.router /= layers;
  return sizes;
}

Result<std::vector<ShardCut>> cut_shards(const ModelConfig& model, const CutOptions& options,
                                         BuildOptions& build) {
  return Cutter(model, options, build).run();
}

}  // namespace moec
