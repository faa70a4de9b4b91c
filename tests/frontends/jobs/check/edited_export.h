// Edits shards of a golden case's export. Rewrites the files and updates their sizes and digests in
// the manifest, so that only the content can be wrong.
#pragma once

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/files/digest.h"
#include "backends/formats/emit_shard.h"
#include "backends/formats/read_shard.h"
#include "backends/manifest/manifest_file.h"
#include "ir/analysis/find_experts.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/manifest_forms.h"

namespace moec {

class EditedExport {
 public:
  using Json = nlohmann::ordered_json;
  using Edit = std::function<void(Shard&)>;

  EditedExport(const std::string& golden_case, Words flags) : folder_(fresh_folder("edited")) {
    expect_fine(export_case(golden_case, folder_, std::move(flags)));
    manifest_ = read_manifest(folder_).value();
  }

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  int64_t experts() const {
    for (const manifest::Shard& shard : manifest_.shards)
      if (shard.routing) return shard.routing->experts;
    return 0;
  }

  // Largest number of MoE layers in a shard.
  size_t most_moe_layers() const {
    size_t most = 0;
    for (const manifest::Shard& shard : manifest_.shards)
      most = std::max(most, shard.moe_layers.size());
    return most;
  }

  // Edits the graph of a shard with one width and rewrites its files.
  void edit(const manifest::Shard& shard, const Edit& apply) const {
    auto loaded = read_shard(manifest_, folder_, shard.widths.front());
    ASSERT_TRUE(loaded) << render(loaded.error());
    apply(loaded->shard);
    auto reader = WeightReader::open(loaded->weights);
    ASSERT_TRUE(reader) << render(reader.error());
    const std::string& file = shard.widths.front().file.path;
    const EmitOptions options{.folder = folder_,
                              .stem = stem_of(file),
                              .experts = {0, MoeLayers{experts(), shard.moe_layers}}};
    const ShardWidth width{shard.widths.front().tokens, &loaded->shard};
    auto emitted = emit_shard(manifest_.build.format, {&width, 1}, *reader, options, {});
    ASSERT_TRUE(emitted) << render(emitted.error());
    bring_manifest_in_line();
  }
  // Edits all shards of layer 0 that involve experts.
  void edit_experts(const Edit& apply) const {
    for (const manifest::Shard& shard : manifest_.shards)
      if (shard.layer == 0 && shard.kind != ShardKind::attention) edit(shard, apply);
  }

  void edit_manifest(const std::function<void(Json&)>& apply) const {
    Json json = Json::parse(std::ifstream(path("manifest.json")));
    apply(json);
    auto manifest = from_json(json.dump());
    ASSERT_TRUE(manifest) << render(manifest.error());
    write_both_forms(std::move(*manifest), folder_);
  }
  // Updates the sizes and digests of all files, and clips weight ranges to the end of their file.
  void bring_manifest_in_line() const {
    edit_manifest([&](Json& json) {
      renew_files(json);
      for (Json& shard : json["shards"]) shorten_ranges(shard);
    });
  }

  Outcome check(Words more = {}) const {
    Words words = {"check", folder_};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }

 private:
  static std::string stem_of(const std::string& file) {
    // Without width and suffix.
    return file.substr(0, std::min(file.find(".t1."), file.find(".tflite")));
  }

  static void shorten_ranges(Json& shard) {
    for (Json& weight : shard["weights"])
      for (Json& range : weight["ranges"]) {
        const int64_t size = shard["data"][range["data"].get<size_t>()]["bytes"];
        if (range["offset"] >= size) range["offset"] = 0;
        const int64_t begin = range["offset"], bytes = range["bytes"];
        range["bytes"] = std::min(bytes, size - begin);
      }
  }

  void renew_files(Json& json) const {
    if (json.is_object() && json.contains("path") && json.contains("bytes")) {
      const std::string file = path(json["path"]);
      json["bytes"] = std::filesystem::file_size(file);
      json["digest"] = digest_file(file).value();
    }
    if (json.is_structured())
      for (Json& part : json) renew_files(part);
  }

  std::string folder_;
  Manifest manifest_;
};

// ---- Edits --------------------------------------------------------------------------------------

inline WeightView& view_of(Shard& shard, OpId op) {
  return std::get<Weight>(shard.ops[op].data).view;
}

// Reorders a weight's blocks along an axis: block i of the result is the old block order[i].
inline void reorder_blocks(Shard& shard, OpId op, size_t axis, const std::vector<int64_t>& order) {
  WeightView& view = view_of(shard, op);
  const auto along = static_cast<int64_t>(axis);
  const int64_t size =
      shard.type(shard.ops[op].results[0]).dims[axis] / static_cast<int64_t>(order.size());
  std::vector<WeightView> blocks;
  for (int64_t block : order) blocks.push_back(then(view, SliceStep{along, block * size, size}));
  view = concat_view(along, std::move(blocks));
}

inline OpId weight_named(const Shard& shard, const std::string& name) {
  for (OpId op : op_ids(shard))
    if (std::holds_alternative<Weight>(shard.ops[op].data) &&
        shard.values[shard.ops[op].results[0]].name == name)
      return op;
  ADD_FAILURE() << "no weight " << name;
  return OpId{0};
}

inline WeightView& view_named(Shard& shard, const std::string& name) {
  return view_of(shard, weight_named(shard, name));
}

// Zeroes the second half of the weight's outputs.
inline void cut_short(Shard& shard, const std::string& name) {
  WeightView& view = view_named(shard, name);
  Type half = shard.type(shard.ops[weight_named(shard, name)].results[0]);
  half.dims[0] /= 2;
  view = concat_view(0, {then(view, SliceStep{0, 0, half.dims[0]}), splat_view(0, half)});
}

// Assigns the weights (if `weights`) and the router rows (if `rows`) of expert order[e] to channel
// e, where the shard has them. Supports every form of experts, in one MoE layer of the shard.
struct MoeLayer {
  size_t of = 1, number = 0;
};
inline void reorder(Shard& shard, const std::vector<int64_t>& order, bool weights, bool rows,
                    MoeLayer layer = {}) {
  const auto roles = find_experts(shard, static_cast<int64_t>(order.size()), layer.of);
  std::map<int64_t, std::vector<OpId>> whole;  // weights of each expert with separate tensors
  for (OpId op : op_ids(shard)) {
    const WeightShare& share = roles[op].share;
    if (share.moe_layer != layer.number) continue;
    if (share.role == WeightRole::routing && rows) reorder_blocks(shard, op, share.axis, order);
    if (share.role != WeightRole::expert || !weights) continue;
    if (share.count == 1) {
      whole[share.first].push_back(op);
      continue;
    }
    std::vector<int64_t> own(order.begin() + share.first,
                             order.begin() + share.first + share.count);
    for (int64_t& expert : own) expert -= share.first;
    reorder_blocks(shard, op, share.axis, own);
  }
  const Shard before = shard;
  for (const auto& [expert, ops] : whole)
    if (const auto from = whole.find(order[static_cast<size_t>(expert)]); from != whole.end())
      for (size_t i = 0; i < ops.size(); ++i)
        view_of(shard, ops[i]) = std::get<Weight>(before.ops[from->second[i]].data).view;
}

// Returns the order 0, 1, 2, … after applying the changes.
inline std::vector<int64_t> order_with(int64_t experts, const std::map<int64_t, int64_t>& changes) {
  std::vector<int64_t> order;
  for (int64_t e = 0; e < experts; ++e) order.push_back(changes.contains(e) ? changes.at(e) : e);
  return order;
}

}  // namespace moec
