#include "models/cluster/assign_devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/byte_text.h"
#include "ir/base/invariant.h"
#include "models/plan/cut_shards.h"

namespace moec {
namespace {

using Units = std::vector<DeviceUnit>;

void put(const DeviceUnit& unit, size_t index, DeviceLoad& load) {
  load.units.push_back(index);
  load.bytes += unit.bytes;
  // Units run one at a time, so only the largest peak counts.
  load.peak_bytes = std::max(load.peak_bytes, unit.peak_bytes);
  load.token_bytes += unit.token_bytes;
}

// Bytes that a device with `load` needs after adding `unit`.
int64_t needed_with(const DeviceLoad& load, const DeviceUnit& unit) {
  return load.bytes + unit.bytes + std::max(load.peak_bytes, unit.peak_bytes);
}

tl::unexpected<Diagnostics> too_small(const Device& device, int64_t lacking, std::string cause,
                                      std::string next) {
  return fail("plan.devices",
              fmt::format("device {} lacks {} bytes: {}", device.name, lacking, std::move(cause)),
              std::move(next));
}

// Assigns units in order, filling each device up to the fraction `share` of its memory. Returns
// true if all units were assigned.
bool fill_in_order(const Units& units, const std::vector<Device>& devices, double share,
                   std::vector<DeviceLoad>& loads) {
  loads.assign(devices.size(), {});
  size_t next = 0;
  // `units` is in execution order, so each device runs consecutive units.
  for (size_t d = 0; d < devices.size(); ++d) {
    const auto room = static_cast<int64_t>(share * static_cast<double>(devices[d].bytes));
    while (next < units.size() && needed_with(loads[d], units[next]) <= room) {
      put(units[next], next, loads[d]);
      ++next;
    }
  }
  return next == units.size();
}

// Finds the smallest fraction of memory, in steps of 0.001, at which all units fit on the devices.
// A common fraction fills devices of different sizes about equally.
Result<std::vector<DeviceLoad>> spread_layers(const Units& units,
                                              const std::vector<Device>& devices) {
  constexpr int kSteps = 1000;
  std::vector<DeviceLoad> loads;
  for (int step = 1; step <= kSteps; ++step)
    if (fill_in_order(units, devices, static_cast<double>(step) / kSteps, loads)) return loads;
  // `loads` is the result of the last step, in which the whole memory was available.
  size_t placed = 0;
  for (const DeviceLoad& load : loads) placed += load.units.size();
  int64_t left = 0;
  for (size_t i = placed; i < units.size(); ++i) left += units[i].bytes;
  const DeviceLoad& last = loads.back();
  // needed_with() and `left` both count the first unplaced unit, so one count is subtracted.
  const int64_t lacking =
      needed_with(last, units[placed]) - units[placed].bytes + left - devices.back().bytes;
  return too_small(devices.back(), lacking,
                   fmt::format("{} and all later units do not fit", units[placed].name),
                   fmt::format("give the device {} of memory, or add a device of {}",
                               decimal_bytes(devices.back().bytes + lacking),
                               decimal_bytes(left + units[placed].peak_bytes)));
}

// Whole MoE layers belong to the trunk. Only cutting their experts into groups shrinks it.
std::string how_to_fit_trunk(const Units& units, int64_t needed) {
  int64_t experts = 0;
  for (const DeviceUnit& unit : units) experts += unit.experts() ? 0 : unit.expert_bytes;
  const std::string cut = experts == 0 ? ""
                                       : fmt::format(
                                             "cut its experts, {}, into distributed groups "
                                             "with --experts-per-shard; or ",
                                             decimal_bytes(experts));
  return fmt::format("{}give the device {}, or pass --trunk layers", cut, decimal_bytes(needed));
}

// Places the whole trunk on each device.
Result<std::vector<DeviceLoad>> replicate_trunk(const Units& units,
                                                const std::vector<Device>& devices) {
  DeviceLoad trunk;
  for (size_t i = 0; i < units.size(); ++i)
    if (!units[i].experts()) put(units[i], i, trunk);
  for (const Device& device : devices)
    if (trunk.needed() > device.bytes)
      return too_small(device, trunk.needed() - device.bytes,
                       fmt::format("the trunk needs {}", decimal_bytes(trunk.needed())),
                       how_to_fit_trunk(units, trunk.needed()));
  return std::vector<DeviceLoad>(devices.size(), trunk);
}

Result<std::vector<DeviceLoad>> spread_experts(const Units& units,
                                               const std::vector<Device>& devices) {
  MOEC_ASSIGN(std::vector<DeviceLoad> loads, replicate_trunk(units, devices));
  std::vector<size_t> groups;
  for (size_t i = 0; i < units.size(); ++i)
    if (units[i].experts()) groups.push_back(i);
  // Sorts the largest groups first, so that small groups fill the gaps. The sort is stable, so that
  // groups of equal size keep the order of the plan.
  std::stable_sort(groups.begin(), groups.end(),
                   [&](size_t a, size_t b) { return units[a].bytes > units[b].bytes; });
  for (size_t n = 0; n < groups.size(); ++n) {
    const DeviceUnit& unit = units[groups[n]];
    size_t best = 0;
    const auto room = [&](size_t d) { return devices[d].bytes - needed_with(loads[d], unit); };
    for (size_t d = 1; d < devices.size(); ++d)
      // The comparison is strict, so that ties go to the first device.
      if (room(d) > room(best)) best = d;
    if (room(best) < 0) {
      int64_t left = -room(best);
      for (size_t rest = n + 1; rest < groups.size(); ++rest) left += units[groups[rest]].bytes;
      return too_small(
          devices[best], left,
          fmt::format("{} of {} expert groups do not fit", groups.size() - n, groups.size()),
          fmt::format("give the device {} of memory", decimal_bytes(devices[best].bytes + left)));
    }
    put(unit, groups[n], loads[best]);
  }
  return loads;
}

std::vector<size_t> devices_with(const DeviceUnit& unit, const GroupCopies& copies) {
  const auto& groups = copies.at(unit.layer);
  std::vector<size_t> holders;
  for (size_t d = 0; d < groups.size(); ++d)
    if (std::find(groups[d].begin(), groups[d].end(), unit.group) != groups[d].end())
      holders.push_back(d);
  MOEC_CHECK(!holders.empty(), "no device has a copy of {}", unit.name);
  return holders;
}

}  // namespace

Result<std::vector<DeviceLoad>> assign_copies(const Units& units,
                                              const std::vector<Device>& devices,
                                              const GroupCopies& copies) {
  MOEC_ASSIGN(std::vector<DeviceLoad> loads, replicate_trunk(units, devices));
  for (size_t i = 0; i < units.size(); ++i) {
    if (!units[i].experts()) continue;
    const std::vector<size_t> holders = devices_with(units[i], copies);
    // Assumes that tokens are spread evenly over the copies of a group.
    DeviceUnit copy = units[i];
    copy.token_bytes /= static_cast<double>(holders.size());
    for (const size_t d : holders) put(copy, i, loads[d]);
  }
  for (size_t d = 0; d < devices.size(); ++d)
    if (loads[d].needed() > devices[d].bytes)
      return too_small(devices[d], loads[d].needed() - devices[d].bytes,
                       fmt::format("the trunk and its copies of experts need {}",
                                   decimal_bytes(loads[d].needed())),
                       fmt::format("give the device {}, or use fewer --replicas or more devices",
                                   decimal_bytes(loads[d].needed())));
  return loads;
}

Result<std::vector<DeviceLoad>> assign_devices(const std::vector<DeviceUnit>& units,
                                               const std::vector<Device>& devices,
                                               TrunkPlacement trunk) {
  return trunk == TrunkPlacement::layers ? spread_layers(units, devices)
                                         : spread_experts(units, devices);
}

}  // namespace moec
