#include "backends/formats/coreml/spec_version.h"

#include <fmt/format.h>

#include "backends/formats/coreml/write_mil_codes.h"

namespace moec {
namespace {

struct Need {
  int version = 0;
  std::string feature;
};

// Keeps the first feature that needs the highest version; the error message names this feature.
void raise(Need& need, int version, std::string feature) {
  if (version > need.version) need = {version, std::move(feature)};
}

// Returns the lowest version that has all features in use, so that the package runs on the oldest
// possible systems. Version 6 corresponds to iOS 15 and macOS 12, 7 to iOS 16, 8 to iOS 17 and 9 to
// iOS 18.
Need need_of(std::span<const ShardWidth> widths, bool several_functions) {
  Need need{kLeastSpecVersion, "an ML Program"};
  if (several_functions) raise(need, kFunctionsSpecVersion, "a package with several functions");
  for (const ShardWidth& width : widths) {
    const Shard& shard = *width.shard;
    for (const Op& op : shard.ops)
      if (const auto* weight = std::get_if<Weight>(&op.data)) {
        const Type& type = shard.type(op.results.front());
        raise(need, mil_weight_version(weight->encoding, type),
              fmt::format("a weight as {}", to_string(weight->encoding)));
      }
    for (const State& state : shard.states) raise(need, 9, fmt::format("state \"{}\"", state.name));
    for (ValueId input : shard.inputs)
      if (shard.type(input).dtype == DType::f16)
        raise(need, 7, fmt::format("f16 input \"{}\"", shard.values[input].name));
    for (const Output& output : shard.outputs)
      if (shard.type(output.value).dtype == DType::f16)
        raise(need, 7, fmt::format("f16 output \"{}\"", output.name));
  }
  return need;
}

}  // namespace

// The opset number is the specification version minus 1.
std::string opset_name(int spec_version) { return fmt::format("CoreML{}", spec_version - 1); }

int least_spec_version(std::span<const ShardWidth> widths) {
  return need_of(widths, false).version;
}

Result<int> choose_spec_version(std::span<const ShardWidth> widths, bool several_functions,
                                int wanted) {
  const Need need = need_of(widths, several_functions);
  if (wanted == 0) return need.version;
  const Place place{.shard = widths.front().shard->name};
  if (wanted > kLatestSpecVersion)
    return fail(
        "coreml.spec_unknown", fmt::format("specification version {} is unknown", wanted),
        fmt::format("choose a version from {} to {}", kLeastSpecVersion, kLatestSpecVersion),
        place);
  if (wanted < need.version)
    return fail("coreml.spec_too_low",
                fmt::format("{} needs specification version {}, but version {} was requested",
                            need.feature, need.version, wanted),
                fmt::format("choose version {} or above", need.version), place);
  return wanted;
}

}  // namespace moec
