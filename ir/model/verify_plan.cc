#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ir/base/at.h"
#include "ir/base/invariant.h"
#include "ir/experts/expert_runs.h"
#include "ir/model/plan.h"

namespace moec {
namespace {

using Port = ShardInterface::Port;

const Port* find_port(const std::vector<Port>& ports, std::string_view name) {
  for (const Port& port : ports)
    if (port.name == name) return &port;
  return nullptr;
}

class PlanVerifier {
 public:
  PlanVerifier(const Plan& plan, const std::vector<ShardInterface>& interfaces)
      : plan_(plan), interfaces_(interfaces) {
    MOEC_CHECK(interfaces.size() == plan.shards.size(), "{} interfaces for {} shards",
               interfaces.size(), plan.shards.size());
  }

  Diagnostics run() {
    // check_connections() is first, because later checks skip undeclared ports and shards.
    check_connections();
    check_edges();
    check_slices();
    check_experts();
    check_weights();
    return std::move(findings_);
  }

 private:
  template <class... Args>
  void find(std::string_view code, Place place, fmt::format_string<Args...> cause, Args&&... args) {
    findings_.push_back({Severity::error, std::string(code),
                         fmt::format(cause, std::forward<Args>(args)...),
                         fmt::format("ir/OPS.md explains {}", code), std::move(place)});
  }

  bool is_declared(const Step& step) const { return step.shard < plan_.shards.size(); }
  const std::string& name_of(const Step& step) const { return plan_.shards[step.shard].name; }

  // ---- plan.p1 ---------------------------------------------------------------------------------

  void check_connections() {
    std::vector<bool> run(plan_.shards.size(), false);
    for (size_t i = 0; i < plan_.schedule.size(); ++i) {
      const Step& step = plan_.schedule[i];
      if (!is_declared(step)) {
        find("plan.p1", {}, "step {} names shard {}, but only {} are declared", i, step.shard,
             plan_.shards.size());
        continue;
      }
      run[step.shard] = true;
      const ShardInterface& shard = interfaces_[step.shard];
      check_ports(step, "input", step.inputs, shard.inputs);
      check_ports(step, "output", step.outputs, shard.outputs);
      check_skip(step, shard);
    }
    for (size_t i = 0; i < run.size(); ++i)
      if (!run[i]) find("plan.p1", {.shard = plan_.shards[i].name}, "no step runs this shard");
  }

  template <class Binding>
  void check_ports(const Step& step, std::string_view what, const std::vector<Binding>& bindings,
                   const std::vector<Port>& ports) {
    std::map<std::string, int> connected;
    for (const Binding& binding : bindings)
      // An unknown port is reported once, even if several bindings name it.
      if (++connected[binding.port] == 1 && !find_port(ports, binding.port))
        find("plan.p1", {.shard = name_of(step), .op = binding.port},
             "the shard has no {} with this name", what);
    for (const Port& port : ports)
      if (int times = connected[port.name]; times != 1)
        find("plan.p1", {.shard = name_of(step), .op = port.name},
             "the {} is connected {} times, expected once", what, times);
  }

  void check_skip(const Step& step, const ShardInterface& shard) {
    if (step.skip_from.empty() && step.skip_to.empty()) return;
    // A skipped step forwards its input as its output, so both must have one type.
    const Port* from = find_port(shard.inputs, step.skip_from);
    const Port* to = find_port(shard.outputs, step.skip_to);
    if (!from || !to || from->type != to->type)
      find("plan.p1", {.shard = name_of(step)},
           "skipping needs an input and an output of one type, got '{}' and '{}'", step.skip_from,
           step.skip_to);
  }

  // ---- plan.p2 ---------------------------------------------------------------------------------

  void check_edges() {
    // The schedule is visited in order, so `produced` has only the edges of earlier steps.
    std::map<std::string, Type> produced;
    for (const Step& step : plan_.schedule) {
      if (!is_declared(step)) continue;
      for (const InputBinding& input : step.inputs)
        if (input.source == SourceKind::edge) check_consumer(step, input, produced);
      for (const OutputBinding& output : step.outputs) {
        const Port* port = find_port(interfaces_[step.shard].outputs, output.port);
        if (output.sink != SinkKind::edge || !port) continue;
        // The runtime produces the edge of the embedding, so no step may produce it.
        if (output.edge == kEmbedEdge || !produced.emplace(output.edge, port->type).second)
          find("plan.p2", {.shard = name_of(step), .op = output.port},
               "edge '{}' is produced twice", output.edge);
      }
    }
  }

  void check_consumer(const Step& step, const InputBinding& input,
                      std::map<std::string, Type>& produced) {
    const Port* port = find_port(interfaces_[step.shard].inputs, input.port);
    if (!port) return;
    const Place place{.shard = name_of(step), .op = input.port};
    // No shard produces the embedding, so the first consumer determines the type of its edge.
    if (input.edge == kEmbedEdge && produced.emplace(input.edge, port->type).second)
      check_embed_type(place, port->type);
    auto found = produced.find(input.edge);
    if (found == produced.end())
      find("plan.p2", place, "no earlier step produces edge '{}'", input.edge);
    else if (found->second != port->type)
      find("plan.p2", place, "edge '{}' has type {} at its producer and {} here", input.edge,
           to_string(found->second), to_string(port->type));
  }

  // The embedding rows have the plan's element type and layout, and as many channels as the table.
  void check_embed_type(const Place& place, const Type& type) {
    auto table = view_type(plan_.embedding);
    const bool good = table && table->rank() == 2 && type.dtype == plan_.build.dtype &&
                      type.layout == plan_.build.layout && type.layout != Layout::plain &&
                      channels_of(type) == table->dims[1];
    if (!good)
      find("plan.p2", place, "the rows of the embedding table are not of type {}", to_string(type));
  }

  // ---- plan.p3 ---------------------------------------------------------------------------------

  // The slices of a width must be numbered without gaps, and each slice must occur once.
  void check_slices() {
    using Whole = std::tuple<ShardKind, int64_t, int64_t, int64_t>;
    std::map<Whole, std::vector<const ShardDecl*>> wholes;
    for (const ShardDecl& shard : plan_.shards)
      if (shard.layer >= 0)
        wholes[{shard.kind, shard.layer, shard.first_expert, shard.experts}].push_back(&shard);
    for (auto& [key, shards] : wholes) {
      // Stable, so that equal slices are reported in the order of the plan.
      std::stable_sort(shards.begin(), shards.end(),
                       [](const ShardDecl* a, const ShardDecl* b) { return a->slice < b->slice; });
      const auto count = std::ssize(shards);
      for (int64_t i = 0; i < count; ++i)
        if (const ShardDecl& shard = *at(shards, i); shard.slice != i || shard.slices != count)
          find("plan.p3", {.shard = shard.name}, "got slice {} of {}, expected slice {} of {}",
               shard.slice, shard.slices, i, count);
    }
  }

  void check_experts() {
    std::map<int64_t, std::vector<const ShardDecl*>> holders;
    for (const ShardDecl& shard : plan_.shards)
      // All slices of a group have the same experts, so the first one stands for the group.
      if (!is_router(shard.kind) && shard.slice == 0)
        for (const int64_t layer : moe_layers_of(plan_.model, shard))
          holders[layer].push_back(&shard);
    const auto layers = std::ssize(plan_.model.layers);
    for (int64_t layer = 0; layer < layers; ++layer)
      if (at(plan_.model.layers, layer).moe) {
        check_tiling(layer, holders[layer]);
        holders.erase(layer);
      }
    // Layers with experts were erased above, so the remaining layers have none.
    for (const auto& [layer, shards] : holders)
      for (const ShardDecl* shard : shards)
        find("plan.p3", {.shard = shard->name}, "layer {} has no experts", layer);
  }

  // The first expert from `expert` on that a shard of the layer must have, or their number.
  int64_t next_held(int64_t layer, int64_t expert) const {
    while (expert < plan_.model.moe.experts && !plan_.build.experts.holds(layer, expert)) ++expert;
    return expert;
  }

  void check_tiling(int64_t layer, const std::vector<const ShardDecl*>& shards) {
    std::vector<std::pair<ExpertRun, const ShardDecl*>> runs;
    for (const ShardDecl* shard : shards)
      for (const ExpertRun& run : expert_runs(*shard)) runs.emplace_back(run, shard);
    std::stable_sort(runs.begin(), runs.end(),
                     [](const auto& a, const auto& b) { return a.first.first < b.first.first; });
    int64_t next = next_held(layer, 0);
    for (const auto& [run, shard] : runs) {
      if (run.count < 1 || run.first != next)
        find("plan.p3", {.shard = shard->name},
             "layer {}: got {} experts starting at {}, expected expert {} next", layer, run.count,
             run.first, next);
      // max() avoids a second finding for the run after overlapping runs.
      next = next_held(layer, std::max(next, run.first + run.count));
    }
    if (next != plan_.model.moe.experts)
      find("plan.p3", {}, "layer {}: the shards contain experts up to {}, the model has {}", layer,
           next, plan_.model.moe.experts);
  }

  // ---- plan.p4 ---------------------------------------------------------------------------------

  // A plan made from a configuration alone has no weights to account for.
  void check_weights() {
    if (plan_.weights.tensors.empty()) return;
    std::map<std::string, std::string> used;  // tensor → its first user
    for (size_t i = 0; i < interfaces_.size(); ++i)
      // emplace() keeps the first user, which the message names.
      for (const std::string& tensor : interfaces_[i].tensors)
        used.emplace(tensor, plan_.shards[i].name);
    for_each_tensor(plan_.embedding, [&](const TensorSource& tensor, const Type&) {
      used.emplace(tensor.name, "embed");
    });
    for (const auto& [tensor, user] : used)
      if (!plan_.weights.find(tensor))
        find("plan.p4", {.shard = user, .tensor = tensor}, "the checkpoint has no such tensor");
    std::set<std::string_view> ignored;
    for (const IgnoredWeight& weight : plan_.ignored) {
      ignored.insert(weight.tensor);
      if (auto found = used.find(weight.tensor); found != used.end())
        find("plan.p4", {.shard = found->second, .tensor = weight.tensor},
             "the tensor is used but listed as ignored");
    }
    // A tensor that is neither used nor ignored can mean that the family omits a part of the model.
    for (const auto& [tensor, range] : plan_.weights.tensors)
      if (!used.contains(tensor) && !ignored.contains(tensor)) find_unused(tensor, range);
  }

  void find_unused(const std::string& tensor, const TensorRange& range) {
    Place place{.tensor = tensor};
    if (range.file < plan_.weights.files.size()) place.file = plan_.weights.files[range.file].path;
    findings_.push_back({Severity::error, "plan.p4",
                         "the tensor is neither used nor listed as ignored",
                         "if the model does not need it, list it in ignored_tensors of a family "
                         "file for --family-file",
                         std::move(place)});
  }

  const Plan& plan_;
  const std::vector<ShardInterface>& interfaces_;
  Diagnostics findings_;
};

}  // namespace

std::vector<int64_t> moe_layers_of(const ModelConfig& model, const ShardDecl& shard) {
  switch (shard.kind) {
    case ShardKind::moe:
    case ShardKind::router:
    case ShardKind::experts:
      return {shard.layer};
    case ShardKind::attention:
    case ShardKind::mlp:
    case ShardKind::shared:
    case ShardKind::lm_head:
      return {};
    case ShardKind::layers:
      break;
  }
  // A shard of kind `layers` can contain several MoE layers.
  std::vector<int64_t> layers;
  for (int64_t layer = shard.layer; layer < shard.layer + shard.layers; ++layer)
    if (at(model.layers, layer).moe) layers.push_back(layer);
  return layers;
}

ShardInterface interface_of(const Shard& shard) {
  ShardInterface interface;
  for (ValueId id : shard.inputs)
    interface.inputs.push_back({shard.values[id].name, shard.type(id)});
  for (const Output& output : shard.outputs)
    interface.outputs.push_back({output.name, shard.type(output.value)});
  interface.states = shard.states;
  // The set sorts the names and removes duplicates, so interfaces do not depend on op order.
  std::set<std::string> tensors;
  for (const Op& op : shard.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data))
      for_each_tensor(weight->view, [&](const TensorSource& tensor, const Type&) {
        tensors.insert(tensor.name);
      });
  interface.tensors.assign(tensors.begin(), tensors.end());
  return interface;
}

Diagnostics verify_plan(const Plan& plan, const std::vector<ShardInterface>& interfaces) {
  return PlanVerifier(plan, interfaces).run();
}

}  // namespace moec
