#include "frontends/export/options/option_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "ir/base/at.h"
#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"
#include "models/plan/target_budgets.h"

namespace moec {
namespace {

// Kinds of shards in --max-shard-mb.

constexpr double kMega = 1e6;

// A budget applies to all kinds in its folder, "moe" for example to expert groups as well.
std::vector<std::string_view> budget_names() {
  std::vector<std::string_view> names;
  for (const ShardContents& kind : kShardKinds)
    if (std::find(names.begin(), names.end(), kind.folder) == names.end())
      names.push_back(kind.folder);
  return names;
}

Result<Budget> parse_budget(const std::string& text) {
  const auto megabytes = parse_positive(text);
  // The upper limit keeps the product far below 2^63; the lower one makes at least one byte.
  if (!megabytes || *megabytes > 1e9 || *megabytes * kMega < 1)
    return fail("plan.budget_value",
                fmt::format("--max-shard-mb: \"{}\" is not a positive number of MB", text),
                "pass a number of at least 0.000001, for example --max-shard-mb moe=200,attn=1000");
  return Budget{std::llround(*megabytes * kMega)};
}

Status check_kind(const std::string& name, std::set<std::string>& seen) {
  const std::vector<std::string_view> names = budget_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    return fail("plan.budget_kind",
                fmt::format("--max-shard-mb: unknown kind of shard \"{}\"{}", name,
                            did_you_mean(name, names)),
                fmt::format("use one of the kinds {}", fmt::join(names, ", ")));
  if (!seen.insert(name).second)
    return fail("plan.budget_kind", fmt::format("--max-shard-mb: kind {} has two budgets", name),
                "pass each kind once");
  return {};
}

tl::unexpected<Diagnostics> bad_device(const std::string& word, std::string cause) {
  return fail("plan.device_value", fmt::format("--device {}: {}", word, std::move(cause)),
              "pass NAME=MEMORY or NAME=MEMORY,BANDWIDTH, for example gpu0=24GB,936GB");
}

Result<Device> parse_device(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == 0 || equals == std::string::npos)
    return bad_device(word, "the name or the '=' is missing");
  Device device;
  device.name = word.substr(0, equals);
  const std::string_view rest = std::string_view(word).substr(equals + 1);
  // Without a comma, substr(0, npos) is the whole rest.
  const size_t comma = rest.find(',');
  const auto bytes = parse_bytes(rest.substr(0, comma));
  if (!bytes) return bad_device(word, "the memory is not a positive number of bytes");
  device.bytes = *bytes;
  if (comma == std::string_view::npos) return device;
  const auto bandwidth = parse_bytes(rest.substr(comma + 1));
  if (!bandwidth)
    return bad_device(word, "the bandwidth is not a positive number of bytes per second");
  device.bandwidth = static_cast<double>(*bandwidth);
  return device;
}

}  // namespace

Result<Budgets> parse_budgets(const std::vector<std::string>& words, const Target& target) {
  // A budget of 0 bytes means that there is no limit.
  if (words.size() == 1 && words[0] == "none") return Budgets{};
  Budgets budgets = target_budgets(target);
  std::set<std::string> seen;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string name = equals == std::string::npos ? "" : word.substr(0, equals);
    MOEC_ASSIGN(const Budget budget,
                parse_budget(equals == std::string::npos ? word : word.substr(equals + 1)));
    // A number without a kind is valid only alone. In a list, its empty name is refused as an
    // unknown kind.
    if (equals == std::string::npos && words.size() == 1) {
      budgets.fill(budget);
      return budgets;
    }
    MOEC_TRY(check_kind(name, seen));
    for (size_t i = 0; i < budgets.size(); ++i)
      if (kShardKinds[i].folder == name) budgets[i] = budget;
  }
  return budgets;
}

Status parse_layers_per_shard(const std::string& text, CutOptions& cuts) {
  cuts.fit_layers = text == "fit";
  if (text.empty() || cuts.fit_layers) return {};
  const auto count = parse_count(text);
  if (!count)
    return fail("plan.layers_per_shard",
                fmt::format("--layers-per-shard {}: not a positive number of layers", text),
                "pass a number of at least 1, or fit");
  cuts.layers_per_shard = *count;
  return {};
}

Result<std::vector<Device>> parse_devices(const std::vector<std::string>& words) {
  std::vector<Device> devices;
  for (const std::string& word : words) {
    MOEC_ASSIGN(Device device, parse_device(word));
    if (std::any_of(devices.begin(), devices.end(),
                    [&](const Device& other) { return other.name == device.name; }))
      return fail("plan.device_twice", fmt::format("two devices are named \"{}\"", device.name),
                  "use a different name for each device");
    devices.push_back(std::move(device));
  }
  return devices;
}

// K, M and G mean KiB, MiB and GiB, as usual for alignments.
Result<uint64_t> parse_alignment(std::string text) {
  constexpr uint64_t kLeast = 64, kMost = uint64_t{1} << 30;
  const std::string given = text;
  if (!text.empty() && std::string_view("KMG").find(text.back()) != std::string_view::npos)
    text += "iB";
  const auto bytes = static_cast<uint64_t>(parse_bytes(text).value_or(0));
  if (std::has_single_bit(bytes) && bytes >= kLeast && bytes <= kMost) return bytes;
  return fail("export.flags",
              fmt::format("--expert-align {}: not a power of two from 64 to 1G", given),
              "pass a power of two such as 64K");
}

}  // namespace moec
