#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>

#include "frontends/jobs/check/check_folder.h"
#include "ir/analysis/cost.h"

namespace moec {

namespace {

// Returns the bytes of an op's weights. A shared weight counts only for the first op that reads it;
// `taken` marks the counted weights.
int64_t take_weight_bytes(const Shard& shard, const Op& op, IdMap<ValueId, uint8_t>& taken) {
  int64_t bytes = 0;
  for (ValueId operand : op.operands) {
    if (taken[operand] != 0 || !shard.producer_as<Weight>(operand)) continue;
    taken[operand] = 1;
    bytes += filed_weight_bytes(shard, operand);
  }
  return bytes;
}

std::string name_of(const Shard& shard, const Op& op) {
  // A state write has no result, so it is named by its state.
  if (writes_state(op.data)) return fmt::format("{} {}", mnemonic(op.data), *state_of(op.data));
  return shard.label(op.results[0]);
}

// Returns PlacedOp::node of each op. An op without a node in the file is part of the node of its
// user.
IdMap<OpId, std::string> nodes_of(const Shard& shard, IdMap<OpId, std::string> nodes) {
  const auto users = find_users(shard);
  // Users follow their operands, so they are visited first.
  for (size_t i = shard.ops.size(); i-- > 0;) {
    const OpId id{static_cast<uint32_t>(i)};
    for (const ValueId result : shard.ops[id].results)
      for (const OpId user : users[result])
        if (nodes[id].empty()) nodes[id] = nodes[user];
  }
  return nodes;
}

}  // namespace

Coverage& Coverage::operator+=(const Coverage& other) {
  ops += other.ops;
  macs += other.macs;
  weight_bytes += other.weight_bytes;
  return *this;
}

void Coverage::doubt() {
  for (Share* share : {&ops, &macs, &weight_bytes}) share->doubt();
}

PlacementReport report_placement(const Target& target, const Shard& shard) {
  PlacementReport report;
  const auto units = predict_units(target, shard);
  IdMap<ValueId, uint8_t> taken(shard.values.size());
  for (OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    if (is_source(op.data)) continue;
    PlacedOp placed{.name = name_of(shard, op),
                    .op = std::string(mnemonic(op.data)),
                    .unit = std::string(units[id].unit)};
    if (units[id].rule) placed.rule = units[id].rule->id;
    placed.macs = count_macs(shard, op);
    placed.weight_bytes = take_weight_bytes(shard, op, taken);
    const bool on_unit = placed.unit == target.unit;
    report.coverage.ops.add(1, on_unit);
    report.coverage.macs.add(placed.macs, on_unit);
    report.coverage.weight_bytes.add(placed.weight_bytes, on_unit);
    // Counts transitions in the order of the shard's ops, assuming that runtimes keep this order.
    report.transitions += !report.ops.empty() && report.ops.back().unit != placed.unit;
    report.ops.push_back(std::move(placed));
  }
  return report;
}

void name_as_in_file(PlacementReport& report, const Shard& shard,
                     const IdMap<OpId, std::string>& nodes) {
  // A node that several ops are part of has the name of the last one, whose result it computes.
  std::map<std::string_view, OpId> last;
  for (const OpId id : op_ids(shard)) last.insert_or_assign(nodes[id], id);
  const IdMap<OpId, std::string> computed_by = nodes_of(shard, nodes);
  // The loop visits the same ops as report_placement(), so `placed` stays aligned with `nodes`.
  auto placed = report.ops.begin();
  for (const OpId id : op_ids(shard)) {
    if (is_source(shard.ops[id].data)) continue;
    if (last.at(nodes[id]) == id) placed->file_name = nodes[id];
    (placed++)->node = computed_by[id];
  }
}

std::vector<BrokenRule> broken_rules(const CheckReport& report) {
  struct Count {
    // A set, because a rule may occur several times in one file.
    std::set<std::string_view> files;
    int64_t ops = 0;
  };
  std::map<const TargetRule*, Count> counts;
  for (const RuleFinding& found : report.rules) {
    counts[found.rule].files.insert(found.file);
    counts[found.rule].ops += found.ops;
  }
  std::vector<BrokenRule> broken;
  // Iterates over the target, not over `counts`, whose keys are addresses and have no stable order.
  for (const TargetRule& rule : report.target.rules)
    if (const auto found = counts.find(&rule); found != counts.end())
      broken.push_back({&rule, found->second.files.size(), found->second.ops});
  return broken;
}

int64_t checked_weight_bytes(const CheckReport& report) {
  int64_t bytes = 0;
  for (const CheckedShard& shard : report.shards) bytes += shard.weight_bytes;
  return bytes;
}

int64_t transitions(const CheckedShard& shard) {
  int64_t count = 0;
  for (const CheckedWidth& width : shard.widths) count += width.placement.transitions;
  return count;
}

}  // namespace moec
