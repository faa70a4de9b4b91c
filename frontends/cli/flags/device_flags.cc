#include "frontends/cli/flags/device_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/one_of.h"
#include "ir/base/parse_number.h"
#include "ir/graph/ops.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> bad_device(const std::string& word, std::string cause) {
  return fail("plan.device_value", fmt::format("--device {}: {}", word, std::move(cause)),
              "give NAME=MEMORY or NAME=MEMORY,BANDWIDTH, for example gpu0=24GB,936GB");
}

Result<Device> parse_device(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == 0 || equals == std::string::npos)
    return bad_device(word, "it lacks a name or a '='");
  Device device;
  device.name = word.substr(0, equals);
  const std::string_view rest = std::string_view(word).substr(equals + 1);
  const size_t comma = rest.find(',');
  const auto bytes = parse_bytes(rest.substr(0, comma));
  if (!bytes) return bad_device(word, "the memory is not a number of bytes above 0");
  device.bytes = *bytes;
  if (comma == std::string_view::npos) return device;
  const auto bandwidth = parse_bytes(rest.substr(comma + 1));
  if (!bandwidth)
    return bad_device(word, "the bandwidth is not a number of bytes per second above 0");
  device.bandwidth = static_cast<double>(*bandwidth);
  return device;
}

}  // namespace

void add_device_flags(CLI::App& command, DeviceFlags& flags) {
  command
      .add_option("--device", flags.devices,
                  "A device to assign shards to: NAME=MEMORY or NAME=MEMORY,BANDWIDTH, in bytes "
                  "and bytes/s with an optional unit, e.g. gpu0=24GB,936GB (repeatable)")
      ->allow_extra_args(false);
  command
      .add_option("--trunk", flags.trunk,
                  "With --device: where attention, routers and head go. layers: split by layers; "
                  "replicated: a copy on each device")
      ->check(one_of({"layers", "replicated"}))
      ->capture_default_str();
  command.add_option("--loads", flags.loads,
                     "With --device: a CSV file with columns layer,expert,load. Groups of experts "
                     "with a high load get copies, and each device gets a copy of the trunk");
  command
      .add_option("--replicas", flags.replicas,
                  "With --loads: how many groups of experts a layer has on all devices together, "
                  "copies included (default: chosen by the load)")
      ->needs("--loads")
      ->check(whole_from(1));
}

Result<DeviceOptions> device_options(const DeviceFlags& flags) {
  if (flags.devices.empty() && !flags.loads.empty())
    return fail("plan.device_value", "--loads needs devices to place experts on",
                "add --device NAME=MEMORY for each");
  DeviceOptions options{{}, *parse_enum<TrunkPlacement>(flags.trunk), flags.loads, flags.replicas};
  MOEC_ASSIGN(options.devices, parse_devices(flags.devices));
  return options;
}

Result<std::vector<Device>> parse_devices(const std::vector<std::string>& words) {
  std::vector<Device> devices;
  for (const std::string& word : words) {
    MOEC_ASSIGN(Device device, parse_device(word));
    if (std::any_of(devices.begin(), devices.end(),
                    [&](const Device& other) { return other.name == device.name; }))
      return fail("plan.device_twice", fmt::format("two devices are named \"{}\"", device.name),
                  "give each device a different name");
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace moec
