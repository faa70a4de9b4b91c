#include "frontends/jobs/inspect/inspect_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/formats/format.h"
#include "backends/manifest/from_shard.h"
#include "backends/manifest/manifest_file.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/open_source.h"
#include "ir/analysis/cost.h"
#include "ir/base/report_json.h"
#include "ir/text/text.h"
#include "models/shards/count_parameters.h"

namespace moec {

namespace {

tl::unexpected<Diagnostics> no_shard_file(const std::string& path) {
  // Lists the formats that exist in this build, so the message cannot become outdated.
  std::vector<std::string_view> kinds;
  for (const Format& format : all_formats()) kinds.push_back(format.about);
  return fail("inspect.kind", fmt::format("the file is neither {}", fmt::join(kinds, " nor ")),
              "pass one of these, a checkpoint folder or an exported folder", {.file = path});
}

// Wraps the result of reading one kind of source.
template <class T>
Result<Inspected> inspected(Result<T> found) {
  if (!found) return fail(std::move(found.error()));
  return Inspected(std::move(*found));
}

}  // namespace

Result<Inspected> inspect_source(const InspectOptions& options) {
  namespace fs = std::filesystem;
  const std::string& source = options.source;
  std::error_code error;
  // Errors count as absent: the reader then reports a precise cause.
  const bool is_file = fs::is_regular_file(source, error);
  const bool is_absent = !fs::exists(source, error);
  const Format* format = format_of_path(source);
  // An absent path with a format's ending goes to that reader, for its message.
  if (format && (format->graph_is_folder || is_file || is_absent))
    return inspected(format->read(source, {.function = options.function}));
  if (names_gguf(source)) return inspected(open_source(source, options.family, equal_tensors));
  if (is_file) return no_shard_file(source);
  if (fs::exists(fs::path(source) / kManifestJson, error)) return inspected(read_manifest(source));
  return inspected(open_source(source, options.family, equal_tensors));
}

using nlohmann::ordered_json;

static ordered_json ports_json(const Shard& shard, bool inputs) {
  auto list = ordered_json::array();
  for (const manifest::Port& port : ports_of(shard, inputs))
    list.push_back({{"name", port.name}, {"type", to_string(port.type())}});
  return list;
}

int64_t count_moe_layers(const ModelConfig& config) {
  int64_t count = 0;
  for (const LayerConfig& layer : config.layers) count += layer.moe;
  return count;
}

ordered_json checkpoint_json(const Checkpoint& checkpoint, bool with_tensors) {
  const ModelConfig& config = checkpoint.config;
  const ParameterCounts counts = count_parameters(config, checkpoint.weights);
  ordered_json json = {{"kind", "checkpoint"},
                       {"family", config.family},
                       {"task", enum_name(config.head.task)},
                       {"layers", config.layers.size()},
                       {"moe_layers", count_moe_layers(config)},
                       {"hidden", config.hidden},
                       {"vocab", config.vocab},
                       {"max_positions", config.max_positions},
                       {"heads", config.attention.heads},
                       {"kv_heads", config.attention.kv_heads},
                       {"head_dim", config.attention.head_dim},
                       {"experts", config.moe.experts},
                       {"top_k", config.moe.routing.top_k},
                       {"expert_ff", config.moe.expert_ff},
                       {"expert_latent", config.moe.latent},
                       {"shared_ff", config.moe.shared_ff},
                       {"dense_ff", config.mlp.ff},
                       {"tied_head", config.head.tied},
                       {"parameters", counts.parameters},
                       {"active_parameters", counts.active},
                       {"bytes_by_dtype", counts.bytes_by_dtype},
                       {"files", checkpoint.weights.files.size()}};
  for (const AttentionConfig& other : config.more_attention)
    json["more_attention"].push_back(
        {{"heads", other.heads}, {"kv_heads", other.kv_heads}, {"head_dim", other.head_dim}});
  // Listed only on request, because large models have tens of thousands of tensors.
  if (with_tensors)
    for (const auto& [name, range] : checkpoint.weights.tensors)
      json["tensors"][name] = to_string(range.type);
  return report_json(true, json, checkpoint.warnings);
}

Result<ordered_json> described_export_json(const Manifest& manifest) {
  MOEC_ASSIGN(const std::string text, to_json(manifest));
  // `kind` comes first, so it is set before the manifest's fields.
  ordered_json json = {{"kind", "export"}};
  json.update(ordered_json::parse(text));
  return report_json(true, json);
}

ordered_json shard_json(const Shard& shard) {
  return report_json(true, {{"kind", "shard"},
                            {"name", shard.name},
                            {"ops", shard.ops.size()},
                            {"weight_bytes", weight_bytes(shard)},
                            {"inputs", ports_json(shard, true)},
                            {"outputs", ports_json(shard, false)},
                            {"ir", print(shard)}});
}

}  // namespace moec
