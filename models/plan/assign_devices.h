// Which device holds which shard, so that weights, caches and activations fit into its memory.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"

namespace moec {

struct Device {
  std::string name;
  int64_t bytes = 0;     // of memory
  double bandwidth = 0;  // bytes/s that it reads its memory with; 0: not known
};

// A shard, or what else takes memory beside it.
struct DeviceUnit {
  std::string name;        // of the shard
  int64_t layer = -1;      // -1: head, tables
  int64_t group = -1;      // of its layer's experts, from 0 on; -1: part of the trunk
  int64_t bytes = 0;       // weights and cache: there all the time
  int64_t peak_bytes = 0;  // activations while it runs: shards of a device run one by one
  double token_bytes = 0;  // weights that a token reads of it, in the mean
  bool experts() const { return group >= 0; }
};

// layers       each device has a run of layers, trunk and experts, in the order of the devices
// replicated   each device has the whole trunk, and the groups of experts are spread
enum class TrunkPlacement : uint8_t { layers, replicated };
constexpr auto enum_names(TrunkPlacement) {
  return name_table<TrunkPlacement>({"layers", "replicated"});
}

struct DeviceLoad {
  std::vector<size_t> units;  // indices, each once
  int64_t bytes = 0;          // of its units, all the time
  int64_t peak_bytes = 0;     // the most activations of one of them
  double token_bytes = 0;
  int64_t needed() const { return bytes + peak_bytes; }
};

// By device. With `layers` the run of each device is about as long as its share of all memory, and
// longer only where the rest would not fit otherwise. With `replicated` each group goes, the
// largest first, to the device with the most room left. Error plan.devices where the devices are
// too small: which one lacks how many bytes, and what would do. `units` are in the order in which
// they run; `devices` is not empty.
Result<std::vector<DeviceLoad>> assign_devices(const std::vector<DeviceUnit>& units,
                                               const std::vector<Device>& devices,
                                               TrunkPlacement trunk);

// Layer → device → the groups of that layer which the device has a copy of.
using GroupCopies = std::map<int64_t, std::vector<std::vector<int64_t>>>;

// By device: the whole trunk, and the copies that it is given; a token runs one copy of a group,
// each as often as the others. Error plan.devices where a device is too small. Each group of each
// layer has a copy somewhere.
Result<std::vector<DeviceLoad>> assign_copies(const std::vector<DeviceUnit>& units,
                                              const std::vector<Device>& devices,
                                              const GroupCopies& copies);

}  // namespace moec
