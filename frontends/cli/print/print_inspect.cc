#include "frontends/cli/print/print_inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "backends/manifest/from_shard.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/analysis/cost.h"
#include "ir/base/byte_text.h"
#include "ir/text/text.h"
#include "models/build/count_parameters.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

int64_t moe_layers(const ModelConfig& config) {
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
                       {"moe_layers", moe_layers(config)},
                       {"hidden", config.hidden},
                       {"vocab", config.vocab},
                       {"max_positions", config.max_positions},
                       {"heads", config.attention.heads},
                       {"kv_heads", config.attention.kv_heads},
                       {"head_dim", config.attention.head_dim},
                       {"experts", config.moe.experts},
                       {"top_k", config.moe.routing.top_k},
                       {"expert_ff", config.moe.expert_ff},
                       {"shared_ff", config.moe.shared_ff},
                       {"dense_ff", config.mlp.ff},
                       {"tied_head", config.head.tied},
                       {"parameters", counts.parameters},
                       {"active_parameters", counts.active},
                       {"bytes_by_dtype", counts.bytes_by_dtype},
                       {"files", checkpoint.weights.files.size()}};
  if (with_tensors)
    for (const auto& [name, range] : checkpoint.weights.tensors)
      json["tensors"][name] = to_string(range.type);
  return json;
}

void print_labels(const std::vector<std::string>& labels) {
  if (!labels.empty()) print_out("labels of tokens: {}\n", fmt::join(labels, ", "));
}

ordered_json ports_json(const Shard& shard, bool inputs) {
  auto list = ordered_json::array();
  for (const manifest::Port& port : ports_of(shard, inputs))
    list.push_back({{"name", port.name}, {"type", to_string(port.type())}});
  return list;
}

ordered_json shard_json(const Shard& shard) {
  return {{"kind", "shard"},
          {"name", shard.name},
          {"ops", shard.ops.size()},
          {"weight_bytes", weight_bytes(shard)},
          {"inputs", ports_json(shard, true)},
          {"outputs", ports_json(shard, false)},
          {"ir", print(shard)}};
}

}  // namespace

void print_checkpoint(const Checkpoint& checkpoint, bool with_tensors) {
  const ModelConfig& c = checkpoint.config;
  const ParameterCounts counts = count_parameters(c, checkpoint.weights);
  print_notes(checkpoint.warnings);
  print_labels(c.head.labels);
  print_out("{}: {} layers ({} MoE), hidden {}, vocabulary {}, {} positions\n", c.family,
            c.layers.size(), moe_layers(c), c.hidden, c.vocab, c.max_positions);
  print_out("attention: {} heads, {} kv heads of {}; qk norm {}; rope {} of {} dims, theta {}\n",
            c.attention.heads, c.attention.kv_heads, c.attention.head_dim,
            enum_name(c.attention.qk_norm), enum_name(c.attention.rope.style),
            c.attention.rope.dims, c.attention.rope.theta);
  if (c.moe.experts > 0)
    print_out("experts: {} of width {}, top-{}, score {}, renorm {}{}\n", c.moe.experts,
              c.moe.expert_ff, c.moe.routing.top_k, enum_name(c.moe.routing.score),
              enum_name(c.moe.routing.renorm),
              c.moe.shared_ff > 0 ? fmt::format("; shared expert of width {}{}", c.moe.shared_ff,
                                                c.moe.shared_gated ? ", sigmoid gate" : "")
                                  : "");
  print_out("parameters: {} ({} a token), head {}\n", counts.parameters, counts.active,
            c.head.tied ? "tied" : "untied");
  for (const auto& [dtype, bytes] : counts.bytes_by_dtype)
    print_out("  {} of {}\n", binary_bytes(static_cast<double>(bytes)), dtype);
  if (with_tensors)
    for (const auto& [name, range] : checkpoint.weights.tensors)
      print_out("  {:<64} {}\n", name, to_string(range.type));
}

void print_checkpoint_json(const Checkpoint& checkpoint, bool with_tensors) {
  print_json(true, checkpoint_json(checkpoint, with_tensors), checkpoint.warnings);
}

void print_manifest(const Manifest& manifest) {
  const manifest::Build& build = manifest.build;
  print_out("{} for {}: {} shards, {}, widths {}, context {}, routing {} ({}), experts {}\n",
            manifest.model.family, build.target, manifest.shards.size(), dtype_name(build.dtype),
            to_string(build.tokens), build.context, build.routing,
            build.exact ? "exact" : "INEXACT", build.experts);
  if (manifest.tagging) print_labels(label_names(*manifest.tagging));
  for (const manifest::Shard& shard : manifest.shards)
    print_out("  {:<14} {:>10}  {:>12} macs a token ({} active)  {}\n", shard.name,
              binary_bytes(static_cast<double>(shard.weight_bytes)), shard.cost.macs_dense,
              shard.cost.macs_active, shard.widths.front().file.path);
}

void print_manifest_json(const std::string& manifest) {
  ordered_json json = {{"kind", "export"}};
  json.update(ordered_json::parse(manifest));
  print_json(true, json);
}

void print_shard_json(const Shard& shard) { print_json(true, shard_json(shard)); }

}  // namespace moec
