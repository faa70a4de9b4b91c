#include "frontends/cli/plan_devices.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/cli/plan_output.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

std::vector<DeviceUnit> units_of(const Plan& plan, const std::vector<ShardSize>& sizes,
                                 const PlanReport& report) {
  std::vector<DeviceUnit> units;
  units.push_back({.name = "tables", .bytes = report.embedding_bytes + report.rope_bytes});
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardDecl& shard = plan.shards[i];
    const int64_t weights = stored_bytes(sizes[i].weights, report.storage);
    units.push_back({.name = shard.name,
                     .layer = shard.layer,
                     .experts = shard.kind == ShardKind::experts,
                     .bytes = weights + sizes[i].cache_bytes,
                     .peak_bytes = sizes[i].peak_activation_bytes,
                     .token_bytes = chance_to_run(plan, i) * static_cast<double>(weights)});
  }
  return units;
}

}  // namespace

Result<DevicePlan> plan_devices(const Plan& plan, const std::vector<ShardSize>& sizes,
                                const PlanReport& report, std::vector<Device> devices,
                                TrunkPlacement trunk) {
  DevicePlan result{std::move(devices), trunk, units_of(plan, sizes, report), {}};
  MOEC_ASSIGN(result.loads, assign_devices(result.units, result.devices, trunk));
  return result;
}

void print_devices(const DevicePlan& plan) {
  fmt::print("\n{:<12} {:>10} {:>14} {:>12} {:>10} {:>7}  trunk: {}\n", "devices", "memory",
             "weights, cache", "activations", "free", "shards", enum_name(plan.trunk));
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const Device& device = plan.devices[d];
    const DeviceLoad& load = plan.loads[d];
    fmt::print("{:<12} {:>10} {:>14} {:>12} {:>10} {:>7}", device.name, decimal_bytes(device.bytes),
               decimal_bytes(load.bytes), decimal_bytes(load.peak_bytes),
               decimal_bytes(device.bytes - load.needed()), load.units.size());
    if (device.bandwidth > 0)
      fmt::print("  {:.2f} ms a token to read its weights",
                 1e3 * load.token_bytes / device.bandwidth);
    fmt::print("\n");
  }
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

}  // namespace moec
