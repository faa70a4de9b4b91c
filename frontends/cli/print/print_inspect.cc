#include "frontends/cli/print/print_inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/from_shard.h"
#include "backends/manifest/top_k.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/jobs/inspect/inspect_json.h"
#include "ir/base/byte_text.h"
#include "models/shards/count_parameters.h"

namespace moec {
namespace {

void print_labels(const std::vector<std::string>& labels) {
  if (!labels.empty()) print_out("labels of tokens: {}\n", fmt::join(labels, ", "));
}

void print_attention(const ModelConfig& model) {
  const std::vector<AttentionConfig> kinds = model.kinds_of_attention();
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const AttentionConfig& own = kinds[kind];
    const auto layers = std::count_if(
        model.layers.begin(), model.layers.end(),
        [&](const LayerConfig& layer) { return std::cmp_equal(layer.attention, kind); });
    print_out(
        "attention{}: {} heads, {} kv heads of {}; qk norm {}; rope {} of {} dims, theta {}\n",
        kinds.size() > 1 ? fmt::format(" of {} layers", layers) : "", own.heads, own.kv_heads,
        own.head_dim, enum_name(own.qk_norm), enum_name(own.rope.style), own.rope.dims,
        own.rope.theta);
  }
}

}  // namespace

void print_checkpoint(const Checkpoint& checkpoint, bool with_tensors) {
  const ModelConfig& c = checkpoint.config;
  const ParameterCounts counts = count_parameters(c, checkpoint.weights);
  print_notes(checkpoint.warnings);
  print_labels(c.head.labels);
  print_out("{}: {} layers ({} MoE), hidden {}, vocabulary {}, {} positions\n", c.family,
            c.layers.size(), count_moe_layers(c), c.hidden, c.vocab, c.max_positions);
  print_attention(c);
  if (c.moe.experts > 0)
    print_out("experts: {} of width {}{}, top-{}, score {}, renorm {}{}\n", c.moe.experts,
              c.moe.expert_ff,
              c.moe.latent > 0 ? fmt::format(" in a latent of {}", c.moe.latent) : "",
              c.moe.routing.top_k, enum_name(c.moe.routing.score), enum_name(c.moe.routing.renorm),
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

void print_manifest(const Manifest& manifest) {
  const manifest::Build& build = manifest.build;
  const bool has_experts = !expert_grid(manifest).layers.empty();
  print_out("{} for {}: {} shards, {}, widths {}, context {}, {}{}\n", manifest.model.family,
            build.target, manifest.shards.size(), dtype_name(build.dtype), to_string(build.tokens),
            build.context, routing_text(manifest),
            has_experts ? fmt::format(", experts {}", build.experts) : "");
  if (!build.expert_mask.empty()) print_out("experts left by a mask: {}\n", build.expert_mask);
  if (manifest.top_k) print_out("forms of top-k: {}\n", describe_forms(manifest));
  if (manifest.capacity) print_out("capacity of experts: {}\n", manifest.capacity->factor);
  if (manifest.node) print_out("{}\n", node_text(*manifest.node));
  if (manifest.tagging) print_labels(label_names(*manifest.tagging));
  for (const manifest::Shard& shard : manifest.shards)
    print_out("  {:<14} {:>10}  {:>12} macs a token ({} active)  {}\n", shard.name,
              binary_bytes(static_cast<double>(shard.weight_bytes)), shard.cost.macs_dense,
              shard.cost.macs_active, shard.widths.front().file.path);
}

}  // namespace moec
