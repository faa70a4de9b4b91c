#include "frontends/jobs/report/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "backends/manifest/check_parts.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/out_folder.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr JsonLimits kReportLimits{.bytes = 512 << 20, .values = size_t{1} << 26};

// Adds the passes that changed a shard.
Status read_shard(JsonFields& shard, PassesOfShards& all) {
  std::string name;
  MOEC_TRY(shard.text("shard", name));
  int64_t position = 0;
  return shard.each("passes", [&](JsonFields& fields) -> Status {
    PassChange pass{.position = position++};
    bool changed = false;
    MOEC_TRY(fields.text("pass", pass.name));
    MOEC_TRY(fields.boolean("changed", changed));
    MOEC_TRY(fields.integer("ops_before", pass.before));
    MOEC_TRY(fields.integer("ops_after", pass.after));
    if (changed) all[name].push_back(std::move(pass));
    return {};
  });
}

// Nodes of a split have no report.
Status read_passes(const std::string& path, PassesOfShards& passes) {
  if (!file_exists(path)) return {};
  MOEC_ASSIGN(const std::string text, read_text_file(path, kReportLimits.bytes));
  const JsonReport report(text, path, JsonCodes::all_as("report.malformed", "export again"));
  MOEC_ASSIGN(const JsonValue root, report.parse(kReportLimits));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  return fields.each("shards", [&](JsonFields& shard) { return read_shard(shard, passes); });
}

ordered_json passes_json(const PassesOfShards& all, const std::string& shard) {
  auto list = ordered_json::array();
  if (const auto found = all.find(shard); found != all.end())
    for (const PassChange& pass : found->second)
      list.push_back({pass.position, pass.name, pass.before, pass.after});
  return list;
}

ordered_json placement_json(const manifest::Shard& shard) {
  auto units = ordered_json::array();
  for (const manifest::Placement& placed : shard.placement) {
    auto rules = ordered_json::array();
    for (const manifest::RuleCount& rule : placed.rules) rules.push_back({rule.rule, rule.ops});
    units.push_back({{"unit", placed.unit}, {"ops", placed.ops}, {"rules", std::move(rules)}});
  }
  return units;
}

// The values that many shards have in common.
ordered_json kind_json(const manifest::Shard& shard, const PassesOfShards& passes) {
  auto ops = ordered_json::array();
  for (const manifest::OpCount& count : shard.ops) ops.push_back({count.op, count.count});
  return {{"kind", enum_name(shard.kind)},
          {"ops", std::move(ops)},
          {"placement", placement_json(shard)},
          {"passes", passes_json(passes, shard.name)},
          {"cost",
           {shard.cost.bytes_dense, shard.cost.bytes_active, shard.cost.macs_dense,
            shard.cost.macs_active}}};
}

// Collects equal values and returns their indices.
class Distinct {
 public:
  int64_t index_of(const ordered_json& value) {
    const auto [found, added] = indices_.emplace(value.dump(), std::ssize(values_));
    if (added) values_.push_back(value);
    return found->second;
  }
  ordered_json take() { return std::move(values_); }

 private:
  std::map<std::string, int64_t> indices_;
  ordered_json values_ = ordered_json::array();
};

// Returns the files of a shard as on the disk: the weight file of several packages once, because
// they are hard links of it. Skips `counted` paths, which are those of a package that earlier
// shards have in common with this one, and adds the shard's paths to them.
std::vector<const manifest::FileRef*> files_on_disk(const manifest::Shard& shard,
                                                    std::set<std::string_view>& counted) {
  std::vector<const manifest::FileRef*> files;
  std::set<std::string_view> digests;
  manifest::for_each_file(shard, [&](const manifest::FileRef& file) {
    if (counted.insert(file.path).second && digests.insert(file.digest).second)
      files.push_back(&file);
  });
  return files;
}

int64_t file_bytes(const manifest::Shard& shard, std::set<std::string_view>& counted) {
  int64_t bytes = 0;
  for (const manifest::FileRef* file : files_on_disk(shard, counted)) bytes += file->bytes;
  return bytes;
}

// [first, count], or the list of experts if they are not consecutive.
ordered_json experts_json(const manifest::Shard& shard) {
  if (!shard.expert_ids.empty()) return {{"ids", shard.expert_ids}};
  return ordered_json::array({shard.first_expert, shard.experts});
}

// The bytes of weights by what a range stores: values, codes, scales, zeros, table.
void add_stored(const manifest::Shard& shard, std::map<std::string, int64_t>& bytes) {
  for (const WeightRecord& weight : shard.weights)
    for (const WeightRange& range : weight.ranges)
      bytes[std::string(enum_name(range.part))] += range.bytes;
}

// Name, layer, experts, bytes of weights and of files, and kind. Then, unless all of them are as
// usual, the MoE layers (usually the layer), the part and the slice (usually 0).
ordered_json shard_json(const manifest::Shard& shard, int64_t kind, size_t part, int64_t bytes) {
  auto json = ordered_json::array(
      {shard.name, shard.layer, experts_json(shard), shard.weight_bytes, bytes, kind});
  const bool usual = shard.moe_layers.empty() || shard.moe_layers == std::vector{shard.layer};
  if (usual && part == 0 && shard.slice == 0) return json;
  json.push_back(shard.moe_layers);
  json.push_back(part);
  json.push_back(shard.slice);
  return json;
}

ordered_json shards_json(const ReportedExport& of, Distinct& kinds) {
  auto shards = ordered_json::array();
  for (size_t part = 0; part < of.parts.size(); ++part) {
    std::set<std::string_view> counted;
    for (const manifest::Shard& shard : of.parts[part].shards)
      shards.push_back(shard_json(shard, kinds.index_of(kind_json(shard, of.passes)), part,
                                  file_bytes(shard, counted)));
  }
  return shards;
}

ordered_json golden_json(const ReportedExport& of) {
  auto results = ordered_json::array();
  for (const Manifest& part : of.parts)
    for (const manifest::Golden& golden : part.golden)
      results.push_back(
          {golden.shard, enum_name(golden.precision), golden.cosine, golden.relative_l2});
  return results;
}

ordered_json parts_json(const ReportedExport& of) {
  auto parts = ordered_json::array();
  for (const Manifest& part : of.parts) {
    auto devices = ordered_json::array();
    for (const manifest::Device& device : part.devices) {
      auto held = ordered_json::array();
      for (const manifest::HeldShard& shard : device.shards) held.push_back(shard.shard);
      devices.push_back({{"name", device.name}, {"bytes", device.bytes}, {"shards", held}});
    }
    parts.push_back({{"name", part.node ? part.node->name : ""}, {"devices", devices}});
  }
  return parts;
}

int64_t experts_of(const Manifest& part) {
  int64_t experts = 0;
  for (const manifest::Shard& shard : part.shards) {
    if (shard.routing) experts = std::max(experts, shard.routing->experts);
    experts = std::max(experts, shard.first_expert + shard.experts);
    for (const int64_t expert : shard.expert_ids) experts = std::max(experts, expert + 1);
  }
  return experts;
}

// The MoE layers of which the folder has only some experts, with these experts: those of the node,
// if the folder is a single node, and those of the mask, if masked experts were dropped.
Result<ordered_json> expected_json(const ReportedExport& of, int64_t experts) {
  const Manifest& first = of.parts.front();
  ExpertGrid grid;
  grid.experts = experts;
  for (int64_t layer = 0; layer < first.model.layers; ++layer) grid.layers.push_back(layer);
  ExpertSets expected;
  if (first.build.drop_masked) {
    MOEC_ASSIGN(expected, parse_expert_sets(first.build.expert_mask, grid, "the mask"));
  }
  if (of.parts.size() == 1 && first.node && !first.node->experts.empty()) {
    MOEC_ASSIGN(const ExpertSets of_node,
                parse_expert_sets(first.node->experts, grid, "the experts of the node"));
    expected = in_both(expected, of_node);
  }
  auto layers = ordered_json::object();
  for (const auto& [layer, of_layer] : expected.layers) layers[std::to_string(layer)] = of_layer;
  return layers;
}

// The spans of a timeline.
constexpr int64_t kSpans = 20;

// {"seconds": from the first file to the last, "spans": [[files, bytes], …]} for spans of equal
// length; null if all files have the same time.
ordered_json written_json(const std::vector<TimedFile>& files) {
  const auto [first, last] =
      std::minmax_element(files.begin(), files.end(),
                          [](const TimedFile& a, const TimedFile& b) { return a.time < b.time; });
  if (first == files.end() || first->time == last->time) return nullptr;
  const auto whole = last->time - first->time;
  std::vector<std::array<int64_t, 2>> spans(kSpans);
  for (const TimedFile& file : files) {
    const double share = std::chrono::duration<double>(file.time - first->time) / whole;
    auto& [count, bytes] = spans[std::min(static_cast<size_t>(share * kSpans), spans.size() - 1)];
    ++count;
    bytes += file.bytes;
  }
  return {{"seconds", std::chrono::duration<double>(whole).count()}, {"spans", spans}};
}

Result<ordered_json> export_json(const ReportedExport& of) {
  const Manifest& first = of.parts.front();
  std::map<std::string, int64_t> stored;
  int64_t experts = 0;
  for (const Manifest& part : of.parts) {
    experts = std::max(experts, experts_of(part));
    for (const manifest::Shard& shard : part.shards) add_stored(shard, stored);
  }
  auto budgets = ordered_json::object();
  for (const manifest::Budget& budget : first.build.budgets)
    budgets[std::string(enum_name(budget.kind))] = budget.bytes;
  MOEC_ASSIGN(ordered_json expected, expected_json(of, experts));
  Distinct kinds;
  ordered_json shards = shards_json(of, kinds);
  return ordered_json{{"folder", of.folder},
                      {"family", first.model.family},
                      {"layers", first.model.layers},
                      {"hidden", first.model.hidden},
                      {"vocab", first.model.vocab},
                      {"experts", experts},
                      {"target", first.build.target},
                      {"format", enum_name(first.build.format)},
                      {"dtype", enum_name(first.build.dtype)},
                      {"tokens", first.build.tokens},
                      {"context", first.build.context},
                      {"routing", first.build.routing},
                      {"exact", first.build.exact},
                      {"seeded", first.build.seeded},
                      {"weights", first.build.weights},
                      {"expected", std::move(expected)},
                      {"budgets", std::move(budgets)},
                      {"stored", stored},
                      {"parts", parts_json(of)},
                      {"shards", std::move(shards)},
                      {"kinds", kinds.take()},
                      {"golden", golden_json(of)},
                      {"written", written_json(of.written)}};
}

// The share of each expert in the use of its layer: routing mass or, if a layer lacks it, as in
// profiles of an imatrix, selections.
ordered_json use_json(const ExpertProfile& profile) {
  const bool has_mass = std::all_of(profile.layers.begin(), profile.layers.end(),
                                    [](const LayerProfile& layer) { return !layer.mass.empty(); });
  auto layers = ordered_json::object();
  for (const LayerProfile& layer : profile.layers) {
    std::vector<double> use = layer.mass;
    if (!has_mass) use.assign(layer.selections.begin(), layer.selections.end());
    const double whole = std::accumulate(use.begin(), use.end(), 0.0);
    for (double& share : use) share = whole > 0 ? share / whole : 0;
    layers[std::to_string(layer.layer)] = use;
  }
  return {{"name", has_mass ? "routing mass" : "selections"}, {"layers", std::move(layers)}};
}

// Adds the files of the shards. Skips files that are absent; moec check reports them.
void add_written(const std::string& folder, const Manifest& manifest,
                 std::vector<TimedFile>& written) {
  std::set<std::string_view> counted;
  for (const manifest::Shard& shard : manifest.shards)
    for (const manifest::FileRef* file : files_on_disk(shard, counted)) {
      std::error_code error;
      const auto time = std::filesystem::last_write_time(folder + "/" + file->path, error);
      if (!error) written.push_back({time, file->bytes});
    }
}

}  // namespace

Result<ReportedExport> open_reported(const std::string& folder) {
  ReportedExport reported{folder, {}, {}, {}};
  std::vector<std::string> folders = {folder};
  if (!has_manifest(folder)) folders = exports_in(folder);
  if (folders.empty())
    return fail("report.source", "the folder has no export, and no nodes of an export",
                "give a folder that moec export or moec split wrote", {.file = folder});
  for (const std::string& part : folders) {
    MOEC_ASSIGN(Manifest manifest, read_manifest(part));
    add_written(part, manifest, reported.written);
    reported.parts.push_back(std::move(manifest));
  }
  // Weights without graphs have no passes.
  if (reported.parts.front().has_graphs())
    MOEC_TRY(read_passes(folders.front() + "/" + kReportFile, reported.passes));
  return reported;
}

Result<ordered_json> report_data(const std::vector<ReportedExport>& exports,
                                 const std::optional<ExpertProfile>& profile) {
  auto list = ordered_json::array();
  for (const ReportedExport& reported : exports) {
    MOEC_ASSIGN(ordered_json one, export_json(reported));
    list.push_back(std::move(one));
  }
  ordered_json data = {{"exports", std::move(list)}};
  if (!profile) return data;
  const int64_t experts = data["exports"][0]["experts"], layers = data["exports"][0]["layers"];
  if (profile->experts != experts ||
      (!profile->layers.empty() && profile->layers.back().layer >= layers))
    return fail(
        "report.profile",
        fmt::format("the profile is of {} experts per layer, the export has {} in {} layers",
                    profile->experts, experts, layers),
        "give the profile that moec analyze wrote for this model");
  data["use"] = use_json(*profile);
  return data;
}

}  // namespace moec
