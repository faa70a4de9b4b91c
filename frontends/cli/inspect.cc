// moec inspect: describes a checkpoint, an exported folder or a shard file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/from_shard.h"
#include "backends/manifest/manifest.h"
#include "backends/manifest/top_k.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/flags/family_flags.h"
#include "frontends/cli/flags/required_source.h"
#include "frontends/cli/flags/source_flag.h"
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/cli/print/shard_rows.h"
#include "frontends/jobs/inspect/inspect_source.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/base/byte_text.h"
#include "ir/text/text.h"
#include "models/shards/count_parameters.h"

namespace moec {

namespace {

void print_labels(const std::vector<std::string>& labels) {
  if (!labels.empty()) print_out("token labels: {}\n", fmt::join(labels, ", "));
}

void print_attention(const ModelConfig& model) {
  const std::vector<AttentionConfig> kinds = model.kinds_of_attention();
  // Layers refer to their kind of attention by index, so the number of layers is counted per index.
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

// With `with_tensors`, also lists the checkpoint's tensors with their types.
void print_checkpoint(const Checkpoint& checkpoint, bool with_tensors) {
  const ModelConfig& c = checkpoint.config;
  const ParameterCounts counts = count_parameters(c, checkpoint.weights);
  print_notes(checkpoint.warnings);
  print_labels(c.head.labels);
  print_out("{}: {} layers ({} MoE), hidden {}, vocabulary {}, {} positions\n", c.family,
            c.layers.size(), count_moe_layers(c), c.hidden, c.vocab, c.max_positions);
  print_attention(c);
  // Dense models have no experts, and the line would consist of zeros.
  if (c.moe.experts > 0)
    print_out("experts: {} of width {}{}, top-{}, score {}, renorm {}{}\n", c.moe.experts,
              c.moe.expert_ff,
              c.moe.latent > 0 ? fmt::format(" in a latent of {}", c.moe.latent) : "",
              c.moe.routing.top_k, enum_name(c.moe.routing.score), enum_name(c.moe.routing.renorm),
              c.moe.shared_ff > 0 ? fmt::format("; shared expert of width {}{}", c.moe.shared_ff,
                                                c.moe.shared_gated ? ", sigmoid gate" : "")
                                  : "");
  print_out("parameters: {} ({} per token), head {}\n", counts.parameters, counts.active,
            c.head.tied ? "tied" : "untied");
  // A checkpoint may mix types, for example f32 routers with bf16 matrices.
  for (const auto& [dtype, bytes] : counts.bytes_by_dtype)
    print_out("  {} of {}\n", decimal_bytes(bytes), dtype);
  if (with_tensors)
    for (const auto& [name, range] : checkpoint.weights.tensors)
      print_out("  {:<64} {}\n", name, to_string(range.type));
}

// Prints a summary of the export and one row per shard.
void print_manifest(const Manifest& manifest, bool all) {
  const manifest::Build& build = manifest.build;
  // A manifest states an expert form even if the model has no experts.
  const bool has_experts = !expert_grid(manifest).layers.empty();
  print_out("{} for {}: {} shards, {}, widths {}, context {}, {}{}\n", manifest.model.family,
            build.target, manifest.shards.size(), dtype_name(build.dtype), to_string(build.tokens),
            build.context, routing_text(manifest),
            has_experts ? fmt::format(", experts {}", build.experts) : "");
  if (!build.expert_mask.empty()) print_out("experts kept by the mask: {}\n", build.expert_mask);
  if (manifest.top_k) print_out("top-k variants: {}\n", describe_forms(manifest));
  if (manifest.capacity) print_out("expert capacity factor: {}\n", manifest.capacity->factor);
  if (manifest.node) print_out("{}\n", node_text(*manifest.node));
  if (manifest.tagging) print_labels(label_names(*manifest.tagging));
  std::vector<ShardRow> rows;
  for (const manifest::Shard& shard : manifest.shards)
    rows.push_back(
        {shard.name,
         fmt::format("{:>10}  {:>12} MACs per token ({} active)", decimal_bytes(shard.weight_bytes),
                     shard.cost.macs_dense, shard.cost.macs_active),
         shard.widths.front().file.path});
  print_out("{}", shard_lines(rows, all, "  "));
}

struct InspectFlags {
  InspectOptions options;
  bool tensors = false, all = false, json = false;
};

// Visits a described source: prints it as text or JSON and returns the exit code.
struct Describe {
  const InspectFlags& flags;

  int operator()(const Checkpoint& checkpoint) const {
    flags.json ? print_json(checkpoint_json(checkpoint, flags.tensors))
               : print_checkpoint(checkpoint, flags.tensors);
    return kExitFine;
  }

  int operator()(const Manifest& manifest) const {
    if (!flags.json) {
      print_manifest(manifest, flags.all);
      return kExitFine;
    }
    const auto json = described_export_json(manifest);
    if (!json) return report_failure(json.error(), true);
    print_json(*json);
    return kExitFine;
  }

  int operator()(const LoadedShard& file) const {
    flags.json ? print_json(shard_json(file.shard)) : print_out("{}", print(file.shard));
    return kExitFine;
  }
};

int run_inspect(const InspectFlags& flags) {
  if (const Status source = require_described(flags.options.source); !source)
    return report_failure(source.error(), flags.json);
  InspectOptions options = flags.options;
  const auto found = inspect_source(options);
  return found ? std::visit(Describe{flags}, *found) : report_failure(found.error(), flags.json);
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Describe a checkpoint or an exported folder, or print the IR of a shard file");
  auto flags = std::make_shared<InspectFlags>();
  add_source(*command, "SOURCE", flags->options.source,
             "Checkpoint folder, exported folder, .onnx file, .tflite file or .mlpackage")
      ->required();
  add_family_options(*command, flags->options.family);
  command->add_option("--function", flags->options.function,
                      "Function to read from a .mlpackage or .tflite file that has several");
  command->add_flag("--tensors", flags->tensors,
                    "Also list the checkpoint's tensors with their types");
  command->add_flag("--all", flags->all, "List every shard of an export, even if there are many");
  command->add_flag("--json", flags->json, "Print the description as JSON");
  command->footer("Example: moec inspect models/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_inspect(*flags); });
}

}  // namespace moec
