#include "frontends/export/ane_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/formats/format.h"
#include "backends/manifest/written_file.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/open_source.h"
#include "ir/base/json.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// A path that ends with a slash has an empty filename(), so the parent's name is used.
std::string model_name(const std::string& source) {
  const fs::path path = fs::path(source).lexically_normal();
  const fs::path last = path.has_filename() ? path : path.parent_path();
  std::string name = (last.extension() == ".json" ? last.stem() : last.filename()).string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

// Package of a shard's graph file: the folder that contains Data/com.apple.CoreML/model.mlmodel.
std::string package_of(const manifest::Shard& shard) {
  // check_ane_book() guarantees one package per shard, so the first width names the package of all.
  fs::path path = shard.widths.front().file.path;
  while (path.has_relative_path() && path.extension() != ".mlpackage") path = path.parent_path();
  return path.string();
}

void add_paths(const manifest::Shard& shard, ordered_json& entry) {
  const std::string package = package_of(shard);
  // The runtimes load the compiled package, which the user creates next to the emitted one.
  entry["mlmodelc"] = fs::path(package).replace_extension(".mlmodelc").string();
  entry["mlpackage"] = package;
}

// Token id from config.json, the first one if the value is a list; -1 if absent.
int64_t token_id(const JsonValue& config, std::string_view key) {
  const JsonValue* value = config.find(key);
  // The metadata has one id per key, but a config may list several.
  if (value && value->array() && !value->array()->empty()) value = &value->array()->front();
  return value && value->integer() ? *value->integer() : -1;
}

// One entry per package except the head, numbered in the order of execution.
ordered_json describe_layers(const Manifest& manifest) {
  auto layers = ordered_json::array();
  for (const manifest::Step& step : manifest.schedule) {
    const manifest::Shard& shard = *manifest.find_shard(step.shard);
    if (is_head(shard.kind)) continue;
    ordered_json entry = {{"layer", layers.size()},
                          {"kind", is_whole_moe(shard.kind) ? "moe" : "attn_stateful"}};
    add_paths(shard, entry);
    layers.push_back(std::move(entry));
  }
  return layers;
}

ordered_json describe_head(const Manifest& manifest) {
  auto slices = ordered_json::array();
  for (const manifest::LogitSlice& slice : manifest.logits.slices) {
    ordered_json entry = {{"shard_idx", slices.size()},
                          {"vocab_start", slice.begin},
                          {"vocab_end", slice.begin + slice.size}};
    add_paths(*manifest.find_shard(slice.shard), entry);
    slices.push_back(std::move(entry));
  }
  return slices;
}

}  // namespace

OutNames ane_book_names(const ExportOptions& options) {
  const std::string& wanted = options.output.book_model;
  const std::string model = wanted.empty() ? model_name(options.source.path) : wanted;
  OutNames names;
  names.embedding = model + "_embed.bin";
  names.stem_prefix = model + "_ane/";
  names.runtime_meta = model + "_runtime_meta.json";
  return names;
}

Result<manifest::FileRef> write_runtime_meta(const Manifest& manifest, const ExportOptions& options,
                                             const OutNames& names, const Plan& plan) {
  const std::string path = config_path(options.source.path);
  MOEC_ASSIGN(const std::string text, source_config_text(options.source.path));
  MOEC_ASSIGN(const JsonValue config, parse_json(text, {.file = path}));
  const manifest::Model& model = manifest.model;
  const AttentionConfig& attention = plan.model.attention;
  const ordered_json layers = describe_layers(manifest);
  const std::string& name = options.output.book_model;
  ordered_json meta = {{"model_family", name.empty() ? model.family : name},
                       {"model_id", names.stem_prefix.substr(0, names.stem_prefix.rfind("_ane/"))},
                       {"d_model", model.hidden},
                       {"vocab_size", model.vocab},
                       // The runtimes count packages, not layers of the model.
                       {"n_layers", layers.size()},
                       {"n_attn_heads", attention.heads},
                       {"n_kv_heads", attention.kv_heads},
                       {"d_head", attention.head_dim},
                       {"n_experts", plan.model.moe.experts},
                       {"embed_bin", manifest.embedding.file.path},
                       {"bos_token_id", token_id(config, "bos_token_id")},
                       {"eos_token_id", token_id(config, "eos_token_id")},
                       {"max_seq_len", manifest.build.context},
                       {"attn_implementation", "stateful"},
                       {"layers", layers},
                       {"lm_head_shards", describe_head(manifest)}};
  // check_ane_book() accepts several widths only in one package with a range of widths.
  if (manifest.build.tokens.size() > 1) {
    meta["rangedim_t_max"] = manifest.build.tokens.back();
    meta["moe_rangedim"] = true;
  }
  return manifest::write_listed_file(options.output.folder, names.runtime_meta,
                                     json_text(meta) + "\n", options.output.sha256);
}

}  // namespace moec
