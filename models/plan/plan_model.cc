#include "models/plan/plan_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/at.h"
#include "ir/experts/expert_runs.h"
#include "ir/graph/port_names.h"
#include "models/plan/check_build_options.h"
#include "models/plan/cut_shards.h"
#include "models/plan/fit_target.h"
#include "models/plan/join_layers.h"
#include "models/shards/build_shard.h"
#include "models/shards/check_model.h"
#include "models/shards/feed_forward_sum.h"
#include "models/shards/layer_ports.h"
#include "models/shards/needed_tensors.h"
#include "models/shards/width_slices.h"
#include "models/tensors/ignored_tensors.h"
#include "models/tensors/mla_form.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

// Applies the chosen form of latent attention. Models without it have no expanded form.
Status apply_mla_form(ModelConfig& model, const BuildOptions& options) {
  if (model.attention.latent) {
    choose_mla(model.attention, options.mla);
    return {};
  }
  if (options.mla == MlaForm::latent) return {};
  return fail("plan.options", fmt::format("{} has no latent attention to expand", model.family),
              "omit --mla");
}

Status check_tensor(const WeightTable& weights, const NeededTensor& tensor) {
  const TensorRange* found = weights.find(tensor.name);
  Place place{.tensor = tensor.name};
  if (found == nullptr)
    return fail("plan.missing_tensor",
                fmt::format("the tensor \"{}\" ({}) is missing", tensor.name, tensor.role), {},
                place);
  if (found->type.dims != tensor.dims)
    return fail("plan.tensor_shape",
                fmt::format("\"{}\" is {}, expected {}", tensor.name, to_string(found->type.dims),
                            to_string(tensor.dims)),
                {}, place);
  return {};
}

// Checks a derived tensor and each of the tensors that it reads.
Status check_derived(const WeightTable& weights, const NeededTensor& tensor) {
  const WeightView* view = weights.find_derived(tensor.name);
  // A stored tensor has no view here; check_tensor() checks it.
  if (view == nullptr) return {};
  MOEC_ASSIGN(const Type type, view_type(*view));
  if (type.dims == tensor.dims) return {};
  return fail("plan.tensor_shape",
              fmt::format("\"{}\", derived from stored tensors, is {}, expected {}", tensor.name,
                          to_string(type.dims), to_string(tensor.dims)),
              {}, {.tensor = tensor.name});
}

// Declares the shards and the schedule in execution order.
class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), model_(plan.model), options_(plan.build) {}

  void run() {
    hidden_ = std::string(kEmbedEdge);
    const auto layers = std::ssize(model_.layers);
    layer_ = 0;
    if (options_.layers_per_shard == 0)
      for (; layer_ < layers; ++layer_) parts_of_layer();
    else
      for (const int64_t count : layer_groups(layers, options_)) whole_layers(count);
    head();
  }

 private:
  const LayerConfig& config() const { return at(model_.layers, layer_); }
  std::string label() const { return layer_label(layer_); }
  std::string stem_of(ShardKind kind) const {
    return fmt::format("{}/{}", contents(kind).folder, label());
  }
  std::string edge(std::string_view what) const { return fmt::format("{}.{}", label(), what); }
  static InputBinding from_edge(std::string port, std::string edge) {
    return {std::move(port), SourceKind::edge, std::move(edge)};
  }
  static OutputBinding to_edge(std::string port, std::string edge) {
    return {std::move(port), SinkKind::edge, std::move(edge)};
  }

  // Declares a shard of this layer and its step.
  // The returned reference is valid until the next call, which can reallocate `plan_.schedule`.
  Step& add(ShardDecl shard) {
    shard.layer = layer_;
    if (layer_ < 0) shard.layers = 0;
    plan_.shards.push_back(std::move(shard));
    plan_.schedule.push_back({static_cast<uint32_t>(plan_.shards.size() - 1), {}, {}, {}, {}});
    return plan_.schedule.back();
  }

  void parts_of_layer() {
    layer_input_ = hidden_;
    if (config().mixes()) attention();
    if (!config().feeds()) return;
    if (!config().moe)
      dense();
    else if (options_.host_routing)
      routed_groups();
    else
      feed_forward(ShardKind::moe, held_experts(layer_, model_.moe.experts, options_));
  }

  // Adds the next `count` layers as one shard.
  void whole_layers(int64_t count) {
    ShardDecl shard{edge("layers"), stem_of(ShardKind::layers), ShardKind::layers};
    shard.layers = count;
    Step& step = add(std::move(shard));
    ShardDecl& added = plan_.shards.back();
    if (!moe_layers_of(model_, added).empty()) added.experts = model_.moe.experts;
    step.inputs = {from_edge(kResidualPort, hidden_)};
    hidden_ = fmt::format("{}.{}", layer_label(layer_ + count - 1), kMoeOutPort);
    step.outputs = {to_edge(kMoeOutPort, hidden_)};
    // Precedes the loop, which changes `layer_`: the call reads the config of the first layer.
    bind_router_state(step, layer_ + count - 1);
    for (const int64_t end = layer_ + count; layer_ < end; ++layer_) {
      Step own;
      if (config().mixes()) bind_mixer(own);
      add_ports(own.inputs, step.inputs);
      add_ports(own.outputs, step.outputs);
    }
  }

  // Adds a layer's bindings under its port names in a shard of several layers.
  template <class Binding>
  void add_ports(const std::vector<Binding>& own, std::vector<Binding>& all) const {
    for (Binding binding : own) {
      binding.port = port_among_layers(model_, binding.port, layer_);
      // Layers share some ports, such as masks. Their equal bindings must occur once.
      if (std::find(all.begin(), all.end(), binding) == all.end()) all.push_back(binding);
    }
  }

  void attention() {
    Step& step = add({edge("attn"), stem_of(ShardKind::attention), ShardKind::attention});
    step.inputs = {from_edge(kResidualPort, hidden_)};
    hidden_ = edge(kHiddenPort);
    step.outputs = {to_edge(kHiddenPort, hidden_)};
    bind_mixer(step);
  }

  // Binds the ports of a recurrent mixer other than the residual stream.
  void bind_recurrent(Step& step) const {
    bind_history(step);
    if (model_.recurrent->state().empty()) return;
    step.inputs.push_back({kTokenMaskPort, SourceKind::token_mask});
    step.inputs.push_back({kRecurrentState, SourceKind::recurrent_state, {}, 0, layer_});
    step.outputs.push_back({kNewRecurrentState, SinkKind::recurrent_state, {}, layer_});
  }

  void bind_history(Step& step) const {
    step.inputs.push_back({kHistoryPort, SourceKind::history, {}, 0, layer_});
    step.outputs.push_back({kNewHistory, SinkKind::history_rows, {}, layer_});
  }

  // Binds the ports of a layer's mixer other than the residual stream.
  void bind_mixer(Step& step) const {
    if (is_recurrent(config().mixer))
      bind_recurrent(step);
    else
      bind_attention(step);
  }

  void bind_attention(Step& step) const {
    // The bindings follow the inputs that build_attention.cc declares under the same conditions.
    if (rotates(model_, config())) {
      const int64_t rotation = model_.rotation_of(config());
      for (InputBinding table : {InputBinding{kRopeCosPort, SourceKind::rope_cos},
                                 InputBinding{kRopeSinPort, SourceKind::rope_sin}}) {
        table.rotation = rotation;
        step.inputs.push_back(std::move(table));
      }
    }
    if (scales_queries(model_, config()))
      step.inputs.push_back({kQueryScalePort, SourceKind::query_scale});
    step.inputs.push_back({kMaskPort,
                           SourceKind::attn_mask,
                           {},
                           config().window,
                           -1,
                           config().chunk,
                           config().ahead});
    if (!has_cache(options_.cache)) return;
    if (model_.attention_of(config()).convolved) bind_history(step);
    // The graph updates the cache as a device state, so it has no cache ports.
    if (updates_cache(options_.cache)) {
      step.inputs.push_back({kWriteMaskPort, SourceKind::kv_write_mask});
      return;
    }
    step.inputs.push_back({kKeyState, SourceKind::k_cache, {}, 0, layer_});
    step.inputs.push_back({kValueState, SourceKind::v_cache, {}, 0, layer_});
    step.outputs.push_back({kNewKeys, SinkKind::k_rows, {}, layer_});
    step.outputs.push_back({kNewValues, SinkKind::v_rows, {}, layer_});
  }

  // Binds the router state that this layer reads and the one that layer `last` writes for the next.
  void bind_router_state(Step& step, int64_t last) const {
    const auto state_of = [](int64_t layer) {
      return fmt::format("{}.{}", layer_label(layer), kRouterState);
    };
    if (config().takes_router_state)
      step.inputs.push_back(from_edge(kEarlierRouterState, state_of(layer_ - 1)));
    if (hands_on_router_state(model_, last))
      step.outputs.push_back(to_edge(kRouterState, state_of(last)));
  }

  // Binds the stream that the layer's feed-forward part reads. `mixed` is the stream after the
  // token mixer.
  InputBinding feed_forward_input(const std::string& mixed) const {
    return from_edge(feed_forward_port(model_), model_.stream.parallel ? layer_input_ : mixed);
  }

  // Adds the layer's whole feed-forward part as one shard.
  void feed_forward(ShardKind kind, std::vector<int64_t> experts) {
    ShardDecl shard{edge(enum_name(kind)), stem_of(kind), kind};
    if (!experts.empty()) set_experts(shard, std::move(experts));
    Step& step = add(std::move(shard));
    step.inputs = {feed_forward_input(hidden_)};
    if (model_.stream.parallel) step.inputs.push_back(from_edge(kHiddenPort, hidden_));
    hidden_ = edge(kMoeOutPort);
    step.outputs = {to_edge(kMoeOutPort, hidden_)};
    bind_router_state(step, layer_);
  }

  void dense() {
    if (options_.slices.mlp == 1) return feed_forward(ShardKind::mlp, {});
    const ShardDecl mlp{edge("mlp"), stem_of(ShardKind::mlp), ShardKind::mlp};
    // Captures a copy, because add_part() replaces `hidden_`.
    for_each_slice(mlp, options_.slices.mlp, [&, residual = hidden_](ShardDecl slice) {
      add_part(std::move(slice), residual);
    });
  }

  // Calls visit(slice) for each slice of a shard; the only slice is the shard itself.
  template <class Visit>
  static void for_each_slice(const ShardDecl& whole, int64_t slices, const Visit& visit) {
    for (int64_t i = 0; i < slices; ++i) {
      ShardDecl slice = whole;
      slice.slice = i;
      slice.slices = slices;
      if (slices > 1) slice.name += fmt::format(".s{}", i);
      if (slices > 1) slice.stem += fmt::format(".s{}", i);
      visit(std::move(slice));
    }
  }

  // Adds a shard for a part of the layer's feed-forward sum. Its input is the sum of the earlier
  // parts. That sum starts from the residual stream, or from the first part if norms act on the
  // sum.
  Step& add_part(ShardDecl shard, const std::string& residual) {
    const std::string sum = fmt::format("{}.{}", shard.name, kMoeOutPort);
    const bool begins = model_.norms_feed_forward() && begins_sum(shard, options_);
    Step& step = add(std::move(shard));
    if (!begins) step.inputs.push_back(from_edge(kPartialSumPort, hidden_));
    step.inputs.push_back(feed_forward_input(residual));
    hidden_ = sum;
    step.outputs = {to_edge(kMoeOutPort, hidden_)};
    return step;
  }

  void routed_groups() {
    Step& router = add({edge("router"), stem_of(ShardKind::router), ShardKind::router});
    router.inputs = {feed_forward_input(hidden_)};
    router.outputs = {to_edge(kRoutingWeights, edge(kRoutingWeights))};
    bind_router_state(router, layer_);
    // Copies the name, because each part replaces `hidden_` with its partial sum.
    const std::string residual = hidden_;
    if (!model_.norms_feed_forward()) shared_expert(residual);
    expert_groups_of_layer(residual);
    if (!model_.norms_feed_forward()) return;
    const std::string routed_sum = hidden_;
    Step& last = shared_expert(residual);
    last.inputs.insert(last.inputs.end() - 1, from_edge(kRoutedSumPort, routed_sum));
  }

  // Adds the separate shards of the shared expert, if it has any. Returns the last step.
  Step& shared_expert(const std::string& residual) {
    const ShardDecl shared{edge("shared"), stem_of(ShardKind::shared) + ".shared",
                           ShardKind::shared};
    for_each_slice(shared, options_.slices.shared,
                   [&](ShardDecl slice) { add_part(std::move(slice), residual); });
    return plan_.schedule.back();
  }

  void expert_groups_of_layer(const std::string& residual) {
    int64_t number = 0;
    for (std::vector<int64_t>& experts : expert_shards(layer_, model_.moe.experts, options_)) {
      ShardDecl group{fmt::format("{}.moe.g{}", label(), number),
                      fmt::format("{}.g{}", stem_of(ShardKind::experts), number),
                      ShardKind::experts};
      set_experts(group, std::move(experts));
      // has_first_expert() needs the layer before add() sets it.
      group.layer = layer_;
      for_each_slice(group, options_.slices.expert,
                     [&](ShardDecl slice) { experts_part(std::move(slice), residual); });
      ++number;
    }
  }

  // Adds an expert group or a slice of it. A runtime may skip it unless it adds more than experts.
  void experts_part(ShardDecl shard, const std::string& residual) {
    // Unless the shared expert has separate shards, the group with the first expert also computes
    // it.
    const bool with_shared = has_first_expert(shard, options_) && model_.moe.shared_ff > 0 &&
                             options_.slices.shared == 0;
    const bool begins =
        model_.norms_feed_forward()
            ? begins_sum(shard, options_)
            : model_.stream.residual == ResidualKind::affine && is_first_part(shard, options_);
    Step& step = add_part(std::move(shard), residual);
    step.inputs.push_back(from_edge(kRoutingWeights, edge(kRoutingWeights)));
    if (with_shared || begins) return;
    step.skip_from = kPartialSumPort;
    step.skip_to = kMoeOutPort;
  }

  void head() {
    // For layer -1, add() sets the number of layers to 0.
    layer_ = -1;
    int64_t number = 0, begin = 0;
    for (const int64_t size : balanced_parts(model_.logits(), options_.head_slices)) {
      ShardDecl shard{fmt::format("lm_head.{}", number),
                      fmt::format("{}/{:02}", contents(ShardKind::lm_head).folder, number),
                      ShardKind::lm_head};
      ++number;
      // The slices cover the rows of the head in order and without gaps.
      shard.vocab_begin = begin;
      shard.vocab_size = size;
      begin += size;
      Step& step = add(std::move(shard));
      step.inputs = {from_edge(kHiddenPort, hidden_)};
      step.outputs = {{kLogitsPort, SinkKind::logits, {}}};
    }
  }

  Plan& plan_;
  const ModelConfig& model_;
  const BuildOptions& options_;
  int64_t layer_ = -1;
  std::string hidden_;       // the edge with the residual stream
  std::string layer_input_;  // the edge with the stream before the current layer
};

// A stored tied head equals the embedding, because frontends/sources/hf/own_head.h unties a head
// that differs.
bool is_tied_head(const ModelConfig& model, const std::string& tensor) {
  return model.head.tied && model.names.has("lm_head") && tensor == model.names("lm_head");
}

// Lists the tensors of experts that no shard has. A tensor of all experts of a layer is used.
void list_dropped(Plan& plan) {
  const ModelConfig& model = plan.model;
  if (!plan.build.experts.drop_masked) return;
  for (const NeededRole& role : needed_roles(model))
    for (int64_t e = 0; e < role.experts; ++e) {
      if (plan.build.experts.holds(role.layer, e)) continue;
      const NeededTensor tensor{role.role, model.names(role.role, role.layer, e), role.dims};
      for (const StoredTensor& part : stored_tensors(plan.weights, model.stored, tensor))
        plan.ignored.push_back({part.tensor.name, "the expert is masked"});
    }
}

void list_ignored(Plan& plan) {
  for (const auto& [name, range] : plan.weights.tensors)
    if (is_tied_head(plan.model, name))
      plan.ignored.push_back({name, "equals the embedding, to which the head is tied"});
    else if (const std::string* pattern = ignoring_pattern(plan.model, name))
      plan.ignored.push_back({name, fmt::format("not used by a text decoder ({})", *pattern)});
}

}  // namespace

Result<Plan> plan_model(ModelConfig model, WeightTable weights, BuildOptions options) {
  // This comes first, because the form changes the head dims that check_model() checks.
  MOEC_TRY(apply_mla_form(model, options));
  Diagnostics findings = check_model(model);
  if (!findings.empty()) return fail(std::move(findings));
  options.cache = cache_form(model, options.cache);
  // If a norm acts on the sum, the shard of the shared expert ends the layer.
  if (options.host_routing && model.norms_feed_forward())
    options.slices.shared = std::max<int64_t>(options.slices.shared, 1);
  MOEC_TRY(check_build_options(model, options));
  // The builders rely on this check (weights_of()).
  for (const NeededTensor& tensor : tensors_to_check(model, weights)) {
    MOEC_TRY(check_derived(weights, tensor));
    for (const StoredTensor& part : stored_tensors(weights, model.stored, tensor))
      MOEC_TRY(check_tensor(weights, part.tensor));
  }

  Plan plan;
  plan.model = std::move(model);
  plan.weights = std::move(weights);
  plan.build = std::move(options);
  Planner(plan).run();
  plan.embedding = build_embedding(plan);
  list_ignored(plan);
  list_dropped(plan);
  return plan;
}

}  // namespace moec
