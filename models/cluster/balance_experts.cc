#include "models/cluster/balance_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/base/at.h"

namespace moec {
namespace {

Status bad_counts(std::string cause, std::string next) {
  return fail("balance.counts", std::move(cause), std::move(next));
}

Status check_counts(int64_t experts, const BalanceOptions& options) {
  const auto& [replicas, groups, nodes, devices] = options;
  if (groups < 1 || nodes < 1 || devices < 1 || devices > kMaxReplicas || replicas > kMaxReplicas)
    return bad_counts(fmt::format("{} replicas, {} groups, {} nodes, {} devices", replicas, groups,
                                  nodes, devices),
                      fmt::format("choose a number from 1 to {} for each", kMaxReplicas));
  if (experts % groups != 0)
    return bad_counts(fmt::format("{} experts are not divisible into {} groups", experts, groups),
                      "choose a divisor of the number of experts");
  if (devices % nodes != 0)
    return bad_counts(fmt::format("{} devices are not divisible into {} nodes", devices, nodes),
                      "give each node the same number of devices");
  // `least` is a multiple of `devices`, because all devices have the same number of slots.
  const int64_t least = (experts + devices - 1) / devices * devices;
  if (replicas < experts || replicas > experts * devices || replicas % devices != 0)
    return bad_counts(
        fmt::format("{} replicas of {} experts on {} devices", replicas, experts, devices),
        fmt::format("choose a multiple of {} from {} to {}", devices, least, experts * devices));
  return {};
}

Status check_loads(std::span<const double> loads) {
  for (size_t expert = 0; expert < loads.size(); ++expert)
    if (!std::isfinite(loads[expert]) || loads[expert] < 0)
      return fail("balance.load", fmt::format("the load of expert {} is {}", expert, loads[expert]),
                  "use finite, non-negative loads");
  return {};
}

using Packs = std::vector<std::vector<int64_t>>;

// Distributes items over packs of equal size. In descending order of weight, assigns each item to
// the lightest pack with room. Returns the items of each pack in that order.
Packs pack_evenly(const std::vector<double>& weights, int64_t packs) {
  const size_t room = weights.size() / static_cast<size_t>(packs);
  std::vector<int64_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  Packs packed(static_cast<size_t>(packs));
  // With one item per pack, every order is equally balanced, so the order of `weights` is kept.
  if (room > 1)
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return at(weights, a) > at(weights, b); });
  std::vector<double> sums(packed.size(), 0);
  for (int64_t item : order) {
    // The search always finds a pack with room, because callers pass a multiple of `packs` weights
    // (check_counts() and `hierarchical`).
    size_t lightest = packed.size();
    for (size_t pack = 0; pack < packed.size(); ++pack)
      if (packed[pack].size() < room && (lightest == packed.size() || sums[pack] < sums[lightest]))
        lightest = pack;
    if (room == 1) lightest = static_cast<size_t>(item);
    packed[lightest].push_back(item);
    sums[lightest] += at(weights, item);
  }
  return packed;
}

// Returns the expert of each copy: first every expert once, then repeatedly the expert with the
// highest load per copy.
std::vector<size_t> replicate(const std::vector<double>& loads, size_t copies) {
  std::vector<size_t> copy_of(loads.size());
  std::iota(copy_of.begin(), copy_of.end(), size_t{0});
  std::vector<double> count(loads.size(), 1);
  while (copy_of.size() < copies) {
    size_t heaviest = 0;
    for (size_t e = 1; e < loads.size(); ++e)
      if (loads[e] / count[e] > loads[heaviest] / count[heaviest]) heaviest = e;
    copy_of.push_back(heaviest);
    ++count[heaviest];
  }
  return copy_of;
}

std::vector<double> group_loads(std::span<const double> loads, int64_t groups) {
  const size_t size = loads.size() / static_cast<size_t>(groups);
  std::vector<double> sums;
  for (size_t begin = 0; begin < loads.size(); begin += size) {
    const auto group = loads.subspan(begin, size);
    sums.push_back(std::accumulate(group.begin(), group.end(), 0.0));
  }
  return sums;
}

// Assigns the slots of all devices, node by node.
class Filler {
 public:
  explicit Filler(std::span<const double> loads) : loads_(loads) {
    balance_.slots_of.resize(loads.size());
  }

  void fill_node(const std::vector<int64_t>& experts, int64_t copies, int64_t devices) {
    std::vector<double> loads;
    for (int64_t expert : experts) loads.push_back(at(loads_, expert));
    const std::vector<size_t> copy_of = replicate(loads, static_cast<size_t>(copies));
    std::vector<double> count(loads.size(), 0), weights;
    std::vector<size_t> number;  // index of a copy among the copies of its expert
    for (size_t local : copy_of) number.push_back(static_cast<size_t>(count[local]++));
    // The copies of an expert share its load equally.
    for (size_t local : copy_of) weights.push_back(loads[local] / count[local]);
    // add() numbers the slots in call order, so the slots of a device are added consecutively.
    for (const std::vector<int64_t>& device : pack_evenly(weights, devices))
      for (int64_t copy : device) {
        const auto index = static_cast<size_t>(copy);
        add(experts[copy_of[index]], number[index]);
      }
  }

  ExpertBalance take() { return std::move(balance_); }

 private:
  void add(int64_t expert, size_t number) {
    std::vector<int64_t>& slots = at(balance_.slots_of, expert);
    if (slots.size() <= number) slots.resize(number + 1);
    slots[number] = std::ssize(balance_.expert_of);
    balance_.expert_of.push_back(expert);
  }

  std::span<const double> loads_;
  ExpertBalance balance_;
};

}  // namespace

// If the number of groups is a multiple of the number of nodes, groups are placed on nodes first: a
// token's experts come from few groups and are then on few nodes. Otherwise all devices form one
// node.
Result<ExpertBalance> balance_experts(std::span<const double> loads,
                                      const BalanceOptions& options) {
  const auto experts = std::ssize(loads);
  MOEC_TRY(check_counts(experts, options));
  MOEC_TRY(check_loads(loads));
  const bool hierarchical = options.groups % options.nodes == 0;
  const int64_t groups = hierarchical ? options.groups : 1;
  const int64_t nodes = hierarchical ? options.nodes : 1;
  Filler filler(loads);
  for (const std::vector<int64_t>& node : pack_evenly(group_loads(loads, groups), nodes)) {
    std::vector<int64_t> members;
    for (int64_t group : node)
      for (int64_t i = 0; i < experts / groups; ++i)
        members.push_back(group * (experts / groups) + i);
    filler.fill_node(members, options.replicas / nodes, options.devices / nodes);
  }
  return filler.take();
}

std::vector<double> device_loads(std::span<const double> loads, const ExpertBalance& balance,
                                 int64_t devices) {
  std::vector<double> sums(static_cast<size_t>(devices), 0);
  for (size_t slot = 0; slot < balance.expert_of.size(); ++slot) {
    const auto expert = static_cast<size_t>(balance.expert_of[slot]);
    sums[balance.device_of(slot, devices)] +=
        loads[expert] / static_cast<double>(balance.slots_of[expert].size());
  }
  return sums;
}

}  // namespace moec
