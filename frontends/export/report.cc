#include "frontends/export/report.h"

#include <nlohmann/json.hpp>

#include "backends/manifest/written_file.h"
#include "backends/output/out_folder.h"
#include "frontends/export/cuts_json.h"
#include "ir/base/json_output.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

ordered_json shard_json(const ExportedShard& exported) {
  auto passes = ordered_json::array();
  for (const PassReport& pass : exported.passes)
    passes.push_back({{"pass", pass.pass},
                      {"changed", pass.changed},
                      {"ops_before", pass.ops_before},
                      {"ops_after", pass.ops_after}});
  auto notes = ordered_json::array();
  for (const Diagnostic& note : exported.notes) notes.push_back(render(note));
  return {{"shard", exported.shard.name}, {"passes", passes}, {"notes", notes}};
}

}  // namespace

Result<manifest::FileRef> write_report(const std::string& folder, const WeightPolicy& weights,
                                       std::span<const ShardCut> cuts,
                                       std::span<const ExportedShard> shards, bool sha256) {
  auto list = ordered_json::array();
  for (const ExportedShard& exported : shards) list.push_back(shard_json(exported));
  const ordered_json whole = {
      {"weights", to_string(weights)}, {"cuts", cuts_json(cuts)}, {"shards", list}};
  return manifest::write_listed_file(folder, kReportFile, json_text(whole, 1) + "\n", sha256);
}

}  // namespace moec
