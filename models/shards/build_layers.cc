// Builds a shard of several layers by joining the shards of their parts.
#include <map>
#include <optional>

#include "ir/base/at.h"
#include "ir/base/invariant.h"
#include "ir/graph/builder.h"
#include "ir/graph/port_names.h"
#include "models/shards/layer_ports.h"
#include "models/shards/shard_scope.h"

namespace moec {
namespace {

class LayersBuilder {
 public:
  explicit LayersBuilder(ShardScope& scope) : scope_(scope), b_(scope.b) {}

  void build() {
    for (int64_t layer = first(); layer < end(); ++layer) {
      const LayerConfig& parts = config(layer);
      attention_.emplace_back();
      feed_forward_.emplace_back();
      if (parts.mixes()) attention_.back() = part(ShardKind::attention, layer);
      if (parts.feeds())
        feed_forward_.back() = part(parts.moe ? ShardKind::moe : ShardKind::mlp, layer);
    }
    declare_inputs();
    hidden_ = inputs_.at(kResidualPort);
    if (const auto state = inputs_.find(kEarlierRouterState); state != inputs_.end())
      router_state_ = state->second;
    for (int64_t layer = first(); layer < end(); ++layer) append(layer);
    b_.output(kMoeOutPort, hidden_);
    if (hands_on_router_state(scope_.model(), end() - 1)) b_.output(kRouterState, router_state_);
    for (const Output& rows : new_rows_) b_.output(rows.name, rows.value);
  }

 private:
  int64_t first() const { return scope_.decl.layer; }
  int64_t end() const { return first() + scope_.decl.layers; }
  size_t place(int64_t layer) const { return static_cast<size_t>(layer - first()); }
  const LayerConfig& config(int64_t layer) const { return at(scope_.model().layers, layer); }
  std::string port_of(const std::string& port, int64_t layer) const {
    return port_among_layers(scope_.model(), port, layer);
  }

  Shard part(ShardKind kind, int64_t layer) const {
    ShardDecl decl;
    decl.name = scope_.decl.name;
    decl.kind = kind;
    decl.layer = layer;
    if (is_whole_moe(kind)) decl.experts = scope_.model().moe.experts;
    // Passes the source of the outer shard, so that a source that records requests sees those of
    // all parts.
    ShardScope inner(scope_.plan, decl, scope_.tokens, scope_.source, scope_.form);
    build_body(inner);
    return inner.b.finish();
  }

  // Declares the inputs of all layers before the first op, because the text form and the emitters
  // list inputs first. Layers share inputs of the same name.
  void declare_inputs() {
    // The body of a first layer without a mixer does not declare the residual port.
    if (!config(first()).mixes())
      inputs_[kResidualPort] = b_.input(kResidualPort, scope_.token_type_of(scope_.model().hidden));
    if (config(first()).takes_router_state) {
      const Shard& body = *feed_forward_.front();
      for (ValueId input : body.inputs)
        if (const std::string& name = body.values[input].name; name == kEarlierRouterState)
          inputs_[name] = b_.input(name, body.type(input));
    }
    for (int64_t layer = first(); layer < end(); ++layer) {
      if (!config(layer).mixes()) continue;
      const Shard& body = *attention_[place(layer)];
      for (ValueId input : body.inputs) {
        const std::string name = port_of(body.values[input].name, layer);
        if (!inputs_.contains(name)) inputs_[name] = b_.input(name, body.type(input));
      }
    }
  }

  void append(int64_t layer) {
    layer_input_ = hidden_;
    if (config(layer).mixes()) append_attention(layer);
    if (config(layer).feeds()) append_feed_forward(layer);
  }

  void append_attention(int64_t layer) {
    const Shard& body = *attention_[place(layer)];
    std::vector<ValueId> inputs;
    for (ValueId input : body.inputs) {
      const std::string& name = body.values[input].name;
      inputs.push_back(name == kResidualPort ? hidden_ : inputs_.at(port_of(name, layer)));
    }
    // The label of the layer makes the names of values unique in the shard.
    const std::vector<ValueId> outputs = splice(b_, body, inputs, layer_label(layer));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (const std::string& name = body.outputs[i].name; name == kHiddenPort)
        hidden_ = outputs[i];
      else
        new_rows_.push_back({port_of(name, layer), outputs[i]});
  }

  // Builds each part as a separate shard and inlines it, so that a layer has the same ops with and
  // without separate shards.
  void append_feed_forward(int64_t layer) {
    const Shard& body = *feed_forward_[place(layer)];
    std::vector<ValueId> inputs;
    for (ValueId input : body.inputs) {
      const std::string& name = body.values[input].name;
      inputs.push_back(name == kEarlierRouterState ? router_state_
                       : name == kResidualPort     ? layer_input_
                                                   : hidden_);
    }
    const std::vector<ValueId> outputs = splice(b_, body, inputs, layer_label(layer));
    for (size_t i = 0; i < outputs.size(); ++i)
      (body.outputs[i].name == kRouterState ? router_state_ : hidden_) = outputs[i];
  }

  ShardScope& scope_;
  Builder& b_;
  std::vector<std::optional<Shard>> attention_,
      feed_forward_;  // per layer; absent if the layer lacks the part
  std::map<std::string, ValueId> inputs_;
  std::vector<Output> new_rows_;
  ValueId hidden_, router_state_;
  ValueId layer_input_;  // of the layer that is being added
};

}  // namespace

void build_layers(ShardScope& scope) { LayersBuilder(scope).build(); }

}  // namespace moec
