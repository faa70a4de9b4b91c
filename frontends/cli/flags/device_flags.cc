#include "frontends/cli/flags/device_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "frontends/cli/flags/number_check.h"
#include "frontends/cli/flags/parse_bytes.h"
#include "ir/graph/ops.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> bad_device(const std::string& word, std::string cause) {
  return fail("plan.device_value", fmt::format("--device {}: {}", word, std::move(cause)),
              "give NAME=BYTES or NAME=BYTES,BANDWIDTH, for example gpu0=24GB,936GB");
}

Result<Device> parse_device(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == 0 || equals == std::string::npos)
    return bad_device(word, "there is no name and no '='");
  Device device;
  device.name = word.substr(0, equals);
  const std::string_view rest = std::string_view(word).substr(equals + 1);
  const size_t comma = rest.find(',');
  const auto bytes = parse_bytes(rest.substr(0, comma));
  if (!bytes) return bad_device(word, "its memory is no number of bytes above 0");
  device.bytes = *bytes;
  if (comma == std::string_view::npos) return device;
  const auto bandwidth = parse_bytes(rest.substr(comma + 1));
  if (!bandwidth) return bad_device(word, "its bandwidth is no number of bytes a second above 0");
  device.bandwidth = static_cast<double>(*bandwidth);
  return device;
}

}  // namespace

void add_device_flags(CLI::App& command, DeviceFlags& flags) {
  command
      .add_option("--device", flags.devices,
                  "A device to put shards on, NAME=BYTES or NAME=BYTES,BANDWIDTH, e.g. "
                  "gpu0=24GB,936GB (repeatable)")
      ->allow_extra_args(false);
  command
      .add_option("--trunk", flags.trunk,
                  "With --device: attention, routers and head split by layers, or all on each")
      ->check(CLI::IsMember({"layers", "replicated"}))
      ->capture_default_str();
  command.add_option("--loads", flags.loads,
                     "With --device: CSV layer,expert,load; places copies of busy groups of "
                     "experts, the trunk on each device");
  command
      .add_option("--replicas", flags.replicas,
                  "With --loads: groups of a layer on all devices, copies included")
      ->needs("--loads")
      ->check(whole_from(1));
}

Result<DeviceOptions> device_options(const DeviceFlags& flags) {
  if (flags.devices.empty() && !flags.loads.empty())
    return fail("plan.device_value", "--loads without a --device", "name the devices");
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
                  "give each device a name of its own");
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace moec
