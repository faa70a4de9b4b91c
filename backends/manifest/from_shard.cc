#include "backends/manifest/from_shard.h"

#include <map>

#include "ir/target/target_rules.h"

namespace moec {

std::vector<std::string> label_names(const manifest::Tagging& tagging) {
  std::vector<std::string> names;
  for (const manifest::Label& label : tagging.labels) names.push_back(label.name);
  return names;
}

std::vector<manifest::Port> ports_of(const Shard& shard, bool inputs) {
  std::vector<manifest::Port> ports;
  if (inputs)
    for (ValueId input : shard.inputs)
      ports.emplace_back(shard.values[input].name, shard.type(input));
  else
    for (const Output& output : shard.outputs)
      ports.emplace_back(output.name, shard.type(output.value));
  return ports;
}

std::vector<manifest::Placement> predict_placement(const Shard& shard, const Target& target) {
  // The maps are ordered, so that the placement of a shard has the same text in every export.
  std::map<std::string, std::map<std::string, int64_t>, std::less<>> rules_by_unit;
  std::map<std::string, int64_t, std::less<>> ops_by_unit;
  const auto units = predict_units(target, shard);
  for (OpId op : op_ids(shard)) ++ops_by_unit[std::string(units[op].unit)];
  for (const auto& [op, rule] : find_breaches(target, shard))
    ++rules_by_unit[std::string(units[op].unit)][rule->id];
  std::vector<manifest::Placement> placement;
  for (const auto& [unit, ops] : ops_by_unit) {
    manifest::Placement entry{unit, ops, {}};
    // A unit without a breach gets an empty list.
    for (const auto& [rule, count] : rules_by_unit[unit]) entry.rules.push_back({rule, count});
    placement.push_back(std::move(entry));
  }
  return placement;
}

}  // namespace moec
