// Assigns shards to devices so that weights, caches and activations fit into their memory.
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
  double bandwidth = 0;  // of its memory, in bytes/s; 0: unknown
};

// A shard, or anything else that takes memory on a device, such as the tables.
struct DeviceUnit {
  std::string name;        // of the shard
  int64_t layer = -1;      // -1: head, tables
  int64_t group = -1;      // number of a group of experts within its layer; -1: part of the trunk
  int64_t bytes = 0;       // weights and cache: allocated all the time
  int64_t peak_bytes = 0;  // activations while it runs; a device runs one shard at a time
  double token_bytes = 0;  // mean bytes of its weights that a token reads
  // Of its bytes, those of experts that have no shards of their own.
  int64_t expert_bytes = 0;
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
  int64_t bytes = 0;          // sum over its units
  int64_t peak_bytes = 0;     // maximum over its units
  double token_bytes = 0;
  int64_t needed() const { return bytes + peak_bytes; }
};

// Returns one load for each device. With `layers`, every device is filled to about the same share
// of its memory. With `replicated`, groups are assigned in descending order of size, each to the
// device with the most room left. `units` are in the order in which they run; `devices` is not
// empty. Error plan.devices: a device is too small; the message says by how many bytes, and what
// would fit.
Result<std::vector<DeviceLoad>> assign_devices(const std::vector<DeviceUnit>& units,
                                               const std::vector<Device>& devices,
                                               TrunkPlacement trunk);

// Layer → device → the groups of that layer of which the device has a copy.
using GroupCopies = std::map<int64_t, std::vector<std::vector<int64_t>>>;

// Returns one load for each device: the whole trunk and the copies that `copies` gives it. Copies
// of a group share its tokens equally. Every group of every layer must have at least one copy.
// Error plan.devices: a device is too small.
Result<std::vector<DeviceLoad>> assign_copies(const std::vector<DeviceUnit>& units,
                                              const std::vector<Device>& devices,
                                              const GroupCopies& copies);

}  // namespace moec
