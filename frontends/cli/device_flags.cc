#include "frontends/cli/device_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "frontends/cli/number_check.h"
#include "frontends/cli/parse_number.h"
#include "ir/ops.h"

namespace moec {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

// Longer names first: "GB" ends with "B".
constexpr std::array<Unit, 9> kUnits = {{{"KiB", 1024.0},
                                         {"MiB", 1048576.0},
                                         {"GiB", 1073741824.0},
                                         {"TiB", 1099511627776.0},
                                         {"kB", 1e3},
                                         {"MB", 1e6},
                                         {"GB", 1e9},
                                         {"TB", 1e12},
                                         {"B", 1}}};

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

Result<DeviceWishes> device_wishes(const DeviceFlags& flags) {
  if (flags.devices.empty() && !flags.loads.empty())
    return fail("plan.device_value", "--loads without a --device", "name the devices");
  DeviceWishes wishes{{}, *parse_enum<TrunkPlacement>(flags.trunk), flags.loads, flags.replicas};
  MOEC_ASSIGN(wishes.devices, parse_devices(flags.devices));
  return wishes;
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr double kMost = 1e18;
  double unit_bytes = 1;
  for (const Unit& unit : kUnits)
    if (text.ends_with(unit.name)) {
      text.remove_suffix(unit.name.size());
      unit_bytes = unit.bytes;
      break;
    }
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto number = parse_positive(text);
  if (!number || *number * unit_bytes > kMost || *number * unit_bytes < 1) return std::nullopt;
  return static_cast<int64_t>(*number * unit_bytes);
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

Result<int64_t> bytes_of_flag(std::string_view flag, const std::string& text) {
  if (const auto bytes = parse_bytes(text)) return *bytes;
  return fail("plan.bytes", fmt::format("{} {}: no number of bytes above 0", flag, text),
              "give for example 16GB or 24GiB");
}

}  // namespace moec
