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
  int64_t bytes = 0;     // memory size
  double bandwidth = 0;  // memory bandwidth in bytes/s; 0: unknown
};

// A shard or other contents of device memory, such as the tables.
struct DeviceUnit {
  std::string name;        // shard name
  int64_t layer = -1;      // -1: head, tables
  int64_t group = -1;      // expert group within the layer; -1: part of the trunk
  int64_t bytes = 0;       // weights and cache: always allocated
  int64_t peak_bytes = 0;  // activations while it runs; a device runs one shard at a time
  double token_bytes = 0;  // mean weight bytes read per token
  // Bytes of experts in a shard that is not an expert group.
  int64_t expert_bytes = 0;
  // Multiply-adds per token with all experts, and with the chosen ones only.
  int64_t macs = 0, macs_active = 0;
  bool experts() const { return group >= 0; }
};

// layers       each device holds consecutive layers, trunk and experts, in device order
// replicated   each device has the whole trunk; expert groups are distributed
enum class TrunkPlacement : uint8_t { layers, replicated };
constexpr auto enum_names(TrunkPlacement) {
  return name_table<TrunkPlacement>({"layers", "replicated"});
}

struct DeviceLoad {
  std::vector<size_t> units;  // indices into the units, without duplicates
  int64_t bytes = 0;          // sum over its units
  int64_t peak_bytes = 0;     // maximum over its units
  double token_bytes = 0;
  int64_t needed() const { return bytes + peak_bytes; }
};

// Returns one load per device. With `layers`, fills every device to about the same fraction of its
// memory. With `replicated`, assigns groups in descending order of size, each to the device with
// the most free memory. `units` must be in execution order, `devices` not empty. Error
// plan.devices: a device is too small; the message states the missing bytes and what would fit.
Result<std::vector<DeviceLoad>> assign_devices(const std::vector<DeviceUnit>& units,
                                               const std::vector<Device>& devices,
                                               TrunkPlacement trunk);

// Layer → device → groups of the layer with a copy on the device.
using GroupCopies = std::map<int64_t, std::vector<std::vector<int64_t>>>;

// Returns one load per device: the whole trunk and the device's copies. Copies of a group share its
// tokens equally. Every group of every layer must have at least one copy. Error plan.devices: a
// device is too small.
Result<std::vector<DeviceLoad>> assign_copies(const std::vector<DeviceUnit>& units,
                                              const std::vector<Device>& devices,
                                              const GroupCopies& copies);

}  // namespace moec
