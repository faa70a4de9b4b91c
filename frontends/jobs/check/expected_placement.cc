#include "frontends/jobs/check/expected_placement.h"

#include <nlohmann/json.hpp>

#include "ir/base/json_output.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const PlacedOp& op) {
  ordered_json json = {{"name", op.file_name}, {"op", op.op}, {"unit", op.unit}};
  if (!op.rule.empty()) json["rule"] = op.rule;
  return json;
}

}  // namespace

std::string expected_placement(const CheckReport& report) {
  auto graphs = ordered_json::array();
  for (const CheckedShard& shard : report.shards)
    for (const CheckedWidth& width : shard.widths) {
      auto ops = ordered_json::array();
      for (const PlacedOp& op : width.placement.ops) ops.push_back(to_json(op));
      const manifest::Width& of = report.manifest.find_shard(shard.name)->widths[width.index];
      graphs.push_back({{"shard", shard.name},
                        {"tokens", width.tokens},
                        {"digest", of.file.digest},
                        {"ops", std::move(ops)}});
      if (of.top_k) graphs.back()["function"] = of.function;
    }
  const ordered_json json = {{"format", "moec-expected-placement"},
                             {"version", 1},
                             {"target", report.target.name},
                             {"unit", report.target.unit},
                             {"graphs", std::move(graphs)}};
  return json_text(json, 1) + "\n";
}

}  // namespace moec
