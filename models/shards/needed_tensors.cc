#include "models/shards/needed_tensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/base/invariant.h"
#include "models/shards/shard_scope.h"

namespace moec {
namespace {

// The smallest plan that the builders accept. The token width, the form and the cache of a shard do
// not affect the weights that it reads.
Plan smallest_plan(const ModelConfig& model) {
  Plan plan;
  plan.model = model;
  plan.build.context = 1;
  plan.build.cache = model.keeps_cache() ? CacheForm::append : CacheForm::none;
  return plan;
}

class Recorder {
 public:
  explicit Recorder(const ModelConfig& model) : plan_(smallest_plan(model)) {}

  std::vector<NeededRole> record() {
    std::vector<NeededRole> all;
    embedding_rows(plan_.model, plan_.build.dtype, source());
    append(all, take());
    for (size_t i = 0; i < plan_.model.layers.size(); ++i) {
      const auto layer = static_cast<int64_t>(i);
      // Layer 0 may also have the weights that compute the residual stream from the embedding, so
      // its roles are not reused for other layers.
      append(all, layer == 0 ? body_of(layer) : known_body_of(layer));
    }
    build(ShardKind::lm_head, -1);
    append(all, take());
    return all;
  }

 private:
  WeightSource source() {
    return [this](const WeightRequest& request) {
      note(request);
      // The view needs only a name and a type, because the builders do not read values.
      return tensor_view(request.role, {DType::f32, request.dims});
    };
  }

  // Builders request a tensor more than once if they use several of its parts.
  void note(const WeightRequest& request) {
    // `requested_` has the roles of one layer or of the model, so a role identifies a tensor.
    const auto known =
        std::find_if(requested_.begin(), requested_.end(),
                     [&](const NeededRole& needed) { return needed.role == request.role; });
    if (known == requested_.end()) {
      const int64_t experts = request.expert < 0 ? 0 : plan_.model.moe.experts;
      requested_.push_back({request.role, request.layer, experts, request.dims});
      return;
    }
    MOEC_CHECK(known->dims == request.dims, "{} is requested as {} and as {}", request.role,
               to_string(known->dims), to_string(request.dims));
  }

  std::vector<NeededRole> take() { return std::exchange(requested_, {}); }

  // A tied head requests the embedding again.
  static void append(std::vector<NeededRole>& all, const std::vector<NeededRole>& more) {
    for (const NeededRole& needed : more)
      if (needed.layer >= 0 || std::find(all.begin(), all.end(), needed) == all.end())
        all.push_back(needed);
  }

  void build(ShardKind kind, int64_t layer) {
    ShardDecl decl;
    decl.kind = kind;
    decl.layer = layer;
    // One expert suffices, because note() records the number of experts for roles per expert.
    decl.experts = is_whole_moe(kind) ? 1 : 0;
    decl.vocab_size = is_head(kind) ? plan_.model.logits() : 0;
    ShardScope scope(plan_, decl, plan_.build.tokens.front(), source());
    build_body(scope);
  }

  std::vector<NeededRole> body_of(int64_t layer) {
    const LayerConfig& config = at(plan_.model.layers, layer);
    if (config.mixes()) build(ShardKind::attention, layer);
    if (config.feeds()) build(config.moe ? ShardKind::moe : ShardKind::mlp, layer);
    return take();
  }

  std::vector<NeededRole> known_body_of(int64_t layer) {
    const LayerConfig& config = at(plan_.model.layers, layer);
    auto known = std::find_if(bodies_.begin(), bodies_.end(),
                              [&](const auto& body) { return body.first == config; });
    if (known == bodies_.end()) known = bodies_.insert(known, {config, body_of(layer)});
    std::vector<NeededRole> body = known->second;
    for (NeededRole& needed : body) needed.layer = layer;
    return body;
  }

  Plan plan_;
  std::vector<NeededRole> requested_;  // since the last take()
  std::vector<std::pair<LayerConfig, std::vector<NeededRole>>> bodies_;
};

using NeededRoles = std::vector<NeededRole>::const_iterator;

// Appends in checkpoint order: all matrices of one expert, then all matrices of the next.
void append_experts(const ModelConfig& model, NeededRoles begin, NeededRoles end,
                    std::vector<NeededTensor>& tensors) {
  for (int64_t e = 0; e < begin->experts; ++e)
    for (auto needed = begin; needed != end; ++needed)
      tensors.push_back({needed->role, model.names(needed->role, needed->layer, e), needed->dims});
}

}  // namespace

int64_t NeededRole::elements() const {
  return Type{DType::f32, dims}.elements() * std::max<int64_t>(experts, 1);
}

std::vector<NeededRole> needed_roles(const ModelConfig& model) { return Recorder(model).record(); }

std::vector<NeededTensor> needed_tensors(const ModelConfig& model) {
  const std::vector<NeededRole> roles = needed_roles(model);
  std::vector<NeededTensor> tensors;
  for (auto needed = roles.begin(); needed != roles.end();) {
    if (needed->experts == 0) {
      tensors.push_back({needed->role, model.names(needed->role, needed->layer), needed->dims});
      ++needed;
      continue;
    }
    const auto end = std::find_if(needed, roles.end(), [&](const NeededRole& other) {
      return other.experts == 0 || other.layer != needed->layer;
    });
    append_experts(model, needed, end, tensors);
    needed = end;
  }
  return tensors;
}

std::vector<std::string> missing_roles(const ModelConfig& model) {
  std::set<std::string> missing;
  for (const NeededRole& needed : needed_roles(model))
    // Uses a set, because several layers can request the same role.
    if (!model.names.has(needed.role)) missing.insert(needed.role);
  return {missing.begin(), missing.end()};
}

int64_t parameter_count(const ModelConfig& model) {
  int64_t elements = 0;
  for (const NeededRole& needed : needed_roles(model)) elements += needed.elements();
  return elements;
}

WeightTable declared_weights(const ModelConfig& model, DType dtype) {
  WeightTable table;
  // The file has no path, because the tensors have types but no bytes.
  table.files.push_back({});
  // The matrices of an expert are adjacent in the sorted table, too, so the last one is a hint.
  auto last = table.tensors.end();
  for (NeededTensor& tensor : needed_tensors(model)) {
    TensorRange range{0, table.files[0].bytes, {dtype, std::move(tensor.dims)}};
    table.files[0].bytes += static_cast<uint64_t>(range.type.bytes());
    last = table.tensors.emplace_hint(last, std::move(tensor.name), std::move(range));
  }
  return table;
}

bool is_declared(const WeightTable& weights) {
  return weights.files.size() == 1 && weights.files.front().path.empty();
}

std::vector<NeededTensor> tensors_to_check(const ModelConfig& model, const WeightTable& weights) {
  if (!is_declared(weights)) return needed_tensors(model);
  std::vector<NeededTensor> tensors;
  for (const NeededRole& role : needed_roles(model))
    tensors.push_back(
        {role.role, model.names(role.role, role.layer, role.experts == 0 ? -1 : 0), role.dims});
  return tensors;
}

}  // namespace moec
