// moec inspect: what a checkpoint, an exported folder or a shard file holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/manifest/from_shard.h"
#include "backends/manifest/manifest_file.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/print/findings.h"
#include "frontends/coreml/read_coreml.h"
#include "frontends/hf/open_source.h"
#include "frontends/onnx/read_onnx.h"
#include "ir/analysis/cost.h"
#include "ir/base/byte_text.h"
#include "ir/base/json_output.h"
#include "ir/text/text.h"
#include "models/tensors/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

struct InspectFlags {
  std::string source, family_file, function;
  bool tensors = false, json = false;
};

struct Counts {
  int64_t parameters = 0, active = 0;  // active: read for one token, head included, embedding not
  std::map<std::string, int64_t> bytes_by_dtype;
};

bool is_routed_expert(const NeededTensor& tensor) {
  return tensor.role.starts_with("expert_") || tensor.role.starts_with("experts_");
}

Counts count_parameters(const Checkpoint& checkpoint) {
  Counts counts;
  const MoeConfig& moe = checkpoint.config.moe;
  for (const NeededTensor& tensor : needed_tensors(checkpoint.config)) {
    const int64_t elements = Type{DType::f32, tensor.dims}.elements();
    counts.parameters += elements;
    for (const StoredTensor& part :
         stored_tensors(checkpoint.weights, checkpoint.config.stored, tensor)) {
      const Type& type = checkpoint.weights.find(part.tensor.name)->type;
      counts.bytes_by_dtype[std::string(dtype_name(type.dtype))] += type.bytes();
    }
    if (is_routed_expert(tensor))
      counts.active += elements * moe.routing.top_k / moe.experts;
    else if (tensor.role != "embed" || checkpoint.config.tied_head)
      counts.active += elements;
  }
  return counts;
}

int64_t moe_layers(const ModelConfig& config) {
  int64_t count = 0;
  for (const LayerConfig& layer : config.layers) count += layer.moe;
  return count;
}

ordered_json checkpoint_json(const Checkpoint& checkpoint, const InspectFlags& flags) {
  const ModelConfig& config = checkpoint.config;
  const Counts counts = count_parameters(checkpoint);
  ordered_json json = {{"ok", true},
                       {"kind", "checkpoint"},
                       {"family", config.family},
                       {"task", enum_name(config.task)},
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
                       {"dense_ff", config.dense_ff},
                       {"tied_head", config.tied_head},
                       {"parameters", counts.parameters},
                       {"active_parameters", counts.active},
                       {"bytes_by_dtype", counts.bytes_by_dtype},
                       {"files", checkpoint.weights.files.size()},
                       {"diagnostics", to_json(checkpoint.warnings)}};
  if (flags.tensors)
    for (const auto& [name, range] : checkpoint.weights.tensors)
      json["tensors"][name] = to_string(range.type);
  return json;
}

void print_labels(const std::vector<std::string>& labels) {
  if (!labels.empty()) fmt::print("labels of tokens: {}\n", fmt::join(labels, ", "));
}

void print_checkpoint(const Checkpoint& checkpoint, const InspectFlags& flags) {
  const ModelConfig& c = checkpoint.config;
  const Counts counts = count_parameters(checkpoint);
  print_notes(checkpoint.warnings);
  print_labels(c.labels);
  fmt::print("{}: {} layers ({} MoE), hidden {}, vocabulary {}, {} positions\n", c.family,
             c.layers.size(), moe_layers(c), c.hidden, c.vocab, c.max_positions);
  fmt::print("attention: {} heads, {} kv heads of {}; qk norm {}; rope {} of {} dims, theta {}\n",
             c.attention.heads, c.attention.kv_heads, c.attention.head_dim,
             enum_name(c.attention.qk_norm), enum_name(c.attention.rope.style),
             c.attention.rope.dims, c.attention.rope.theta);
  if (c.moe.experts > 0)
    fmt::print("experts: {} of width {}, top-{}, score {}, renorm {}{}\n", c.moe.experts,
               c.moe.expert_ff, c.moe.routing.top_k, enum_name(c.moe.routing.score),
               enum_name(c.moe.routing.renorm),
               c.moe.shared_ff > 0 ? fmt::format("; shared expert of width {}{}", c.moe.shared_ff,
                                                 c.moe.shared_gated ? ", sigmoid gate" : "")
                                   : "");
  fmt::print("parameters: {} ({} a token), head {}\n", counts.parameters, counts.active,
             c.tied_head ? "tied" : "untied");
  for (const auto& [dtype, bytes] : counts.bytes_by_dtype)
    fmt::print("  {} of {}\n", binary_bytes(static_cast<double>(bytes)), dtype);
  if (flags.tensors)
    for (const auto& [name, range] : checkpoint.weights.tensors)
      fmt::print("  {:<64} {}\n", name, to_string(range.type));
}

int inspect_checkpoint(const InspectFlags& flags) {
  std::optional<std::string> family_file;
  if (!flags.family_file.empty()) family_file = flags.family_file;
  auto checkpoint = open_source(flags.source, family_file);
  if (!checkpoint) return report_failure(checkpoint.error(), flags.json);
  if (flags.json)
    fmt::print("{}\n", json_text(checkpoint_json(*checkpoint, flags)));
  else
    print_checkpoint(*checkpoint, flags);
  return kExitFine;
}

int inspect_export(const InspectFlags& flags) {
  auto manifest = read_manifest(flags.source);
  if (!manifest) return report_failure(manifest.error(), flags.json);
  if (flags.json) {
    auto text = to_json(*manifest);
    if (!text) return report_failure(text.error(), true);
    fmt::print("{}\n", *text);
    return kExitFine;
  }
  const manifest::Build& build = manifest->build;
  fmt::print("{} for {}: {} shards, {}, widths {}, context {}, routing {} ({}), experts {}\n",
             manifest->model.family, build.target, manifest->shards.size(), dtype_name(build.dtype),
             to_string(build.tokens), build.context, build.routing,
             build.exact ? "exact" : "INEXACT", build.experts);
  if (manifest->tagging) print_labels(label_names(*manifest->tagging));
  for (const manifest::Shard& shard : manifest->shards)
    fmt::print("  {:<14} {:>10}  {:>12} macs a token ({} active)  {}\n", shard.name,
               binary_bytes(static_cast<double>(shard.weight_bytes)), shard.cost.macs_dense,
               shard.cost.macs_active, shard.widths.front().file.path);
  return kExitFine;
}

bool has_extension(const std::string& path, std::initializer_list<std::string_view> extensions) {
  const std::string extension = std::filesystem::path(path).extension().string();
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

bool is_package(const std::string& path) { return has_extension(path, {".mlpackage", ".mlmodel"}); }

ordered_json ports_json(const Shard& shard, bool inputs) {
  auto list = ordered_json::array();
  for (const manifest::Port& port : ports_of(shard, inputs))
    list.push_back({{"name", port.name}, {"type", to_string(port.type())}});
  return list;
}

ordered_json shard_json(const Shard& shard) {
  return {{"ok", true},
          {"kind", "shard"},
          {"name", shard.name},
          {"ops", shard.ops.size()},
          {"weight_bytes", weight_bytes(shard)},
          {"inputs", ports_json(shard, true)},
          {"outputs", ports_json(shard, false)},
          {"ir", print(shard)}};
}

int inspect_file(const InspectFlags& flags) {
  auto file = is_package(flags.source) ? read_coreml(flags.source, {flags.function})
                                       : read_onnx(flags.source);
  if (!file) return report_failure(file.error(), flags.json);
  if (flags.json)
    fmt::print("{}\n", json_text(shard_json(file->shard)));
  else
    fmt::print("{}", print(file->shard));
  return kExitFine;
}

Diagnostics no_shard_file(const std::string& path) {
  return fail("inspect.kind", "the file is neither an .onnx file nor an .mlpackage",
              "give one of these, or the folder of a checkpoint or an export", {.file = path})
      .value();
}

int run_inspect(const InspectFlags& flags) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool is_file = fs::is_regular_file(flags.source, error);
  const bool is_absent = !fs::exists(flags.source, error);
  if (is_package(flags.source) ||
      (has_extension(flags.source, {".onnx"}) && (is_file || is_absent)))
    return inspect_file(flags);
  if (is_file) return report_failure(no_shard_file(flags.source), flags.json);
  if (fs::exists(fs::path(flags.source) / kManifestJson, error)) return inspect_export(flags);
  return inspect_checkpoint(flags);
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Describe a checkpoint or an exported folder, or print a shard file as IR");
  auto flags = std::make_shared<InspectFlags>();
  command
      ->add_option("SOURCE", flags->source,
                   "Checkpoint folder, exported folder, .onnx file or .mlpackage")
      ->required();
  command->add_option("--family-file", flags->family_file, "A family descriptor of your own");
  command->add_option("--function", flags->function, "Of a .mlpackage with several functions");
  command->add_flag("--tensors", flags->tensors, "List the checkpoint's tensors");
  command->add_flag("--json", flags->json, "Print as JSON");
  command->footer("Example: moec inspect models/tinymoe");
  command->callback([flags, &exit_code] { exit_code = run_inspect(*flags); });
}

}  // namespace moec
