#include "frontends/cli/print/print_devices.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {

using nlohmann::ordered_json;

static void print_replicas(const ReplicaPlan& plan) {
  print_out(
      "replicas: {} of the {} groups of experts of a layer; the busiest device has at most {:.3f} "
      "times the mean load\n",
      plan.replicas, plan.groups, plan.worst_imbalance());
}

void print_devices(const DevicePlan& plan) {
  print_out("\n{:<12} {:>10} {:>14} {:>12} {:>10} {:>7}  trunk: {}\n", "devices", "memory",
            "weights, cache", "activations", "free", "shards", enum_name(plan.trunk));
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const Device& device = plan.devices[d];
    const DeviceLoad& load = plan.loads[d];
    print_out("{:<12} {:>10} {:>14} {:>12} {:>10} {:>7}", device.name, decimal_bytes(device.bytes),
              decimal_bytes(load.bytes), decimal_bytes(load.peak_bytes),
              decimal_bytes(device.bytes - load.needed()), load.units.size());
    if (device.bandwidth > 0)
      print_out("  {:.2f} ms a token to read its weights",
                1e3 * load.token_bytes / device.bandwidth);
    print_out("\n");
  }
  if (plan.replicas) print_replicas(*plan.replicas);
}

ordered_json devices_json(const DevicePlan& plan) {
  auto list = ordered_json::array();
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const DeviceLoad& load = plan.loads[d];
    auto shards = ordered_json::array();
    for (const size_t unit : load.units) shards.push_back(plan.units[unit].name);
    list.push_back({{"name", plan.devices[d].name},
                    {"bytes", plan.devices[d].bytes},
                    {"used_bytes", load.bytes},
                    {"peak_activation_bytes", load.peak_bytes},
                    {"token_bytes", load.token_bytes},
                    {"shards", shards}});
  }
  return list;
}

ordered_json replicas_json(const ReplicaPlan& plan) {
  auto layers = ordered_json::array();
  for (const LayerReplicas& layer : plan.layers)
    layers.push_back({{"layer", layer.layer},
                      {"group_of_slot", layer.balance.expert_of},
                      {"imbalance", layer.imbalance}});
  return {{"groups", plan.groups},
          {"replicas", plan.replicas},
          {"worst_imbalance", plan.worst_imbalance()},
          {"layers", layers}};
}

}  // namespace moec
