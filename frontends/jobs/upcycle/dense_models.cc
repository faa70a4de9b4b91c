#include "frontends/jobs/upcycle/dense_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "backends/formats/safetensors/safetensors.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/checkpoint/tensor_recipe.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/open_source.h"
#include "ir/base/diagnostics.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"
#include "ir/graph/weight_table.h"
#include "models/shards/needed_tensors.h"

namespace moec {

namespace {

struct AdapterMatrix {
  std::string b, a;  // names of the tensors
  double factor = 1;
};

struct Adapter {
  WeightTable weights;
  std::map<std::string, AdapterMatrix, std::less<>> matrices;  // by name of the changed matrix
};

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightFile = "adapter_model.safetensors";
constexpr uint64_t kMaxConfigText = uint64_t{1} << 20;
// PEFT saves tensors with this prefix before the model's own names.
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

struct AdapterConfig {
  int64_t rank = 0;
  double factor = 1;
};

tl::unexpected<Diagnostics> unsupported(const std::string& file, const std::string& what) {
  return fail("upcycle.adapter.kind", "the adapter is not a plain low-rank update: " + what,
              "merge the adapter into a copy of the model and pass the copy as --expert",
              {.file = file});
}

bool is_empty(const JsonValue* value) {
  // PEFT writes unused options as null, false or an empty container.
  return value == nullptr || value->is_null() ||
         (value->array() != nullptr && value->array()->empty()) ||
         (value->object() != nullptr && value->object()->empty()) ||
         (value->boolean() != nullptr && !*value->boolean());
}

Status check_kind(const JsonValue& config, const std::string& file) {
  const JsonValue* type = config.find("peft_type");
  if (type == nullptr || type->string() == nullptr || *type->string() != "LORA")
    return unsupported(file, "peft_type must be \"LORA\"");
  // With these options, the update has another form or the adapter more tensors.
  for (const char* key : {"use_dora", "fan_in_fan_out", "modules_to_save", "rank_pattern",
                          "alpha_pattern", "lora_bias", "target_parameters",
                          "trainable_token_indices", "megatron_config", "layer_replication"})
    if (!is_empty(config.find(key))) return unsupported(file, fmt::format("it has {}", key));
  // "none" is the only value without additional tensors.
  const JsonValue* bias = config.find("bias");
  if (bias != nullptr && !bias->is_null() &&
      (bias->string() == nullptr || *bias->string() != "none"))
    return unsupported(file, "it has biases");
  return {};
}

Result<AdapterConfig> read_adapter_config(const std::string& file) {
  MOEC_ASSIGN(const std::string text, read_text_file(file, kMaxConfigText));
  MOEC_ASSIGN(const JsonValue config, parse_json(text, {.file = file}));
  MOEC_TRY(check_kind(config, file));
  const JsonValue *rank = config.find("r"), *alpha = config.find("lora_alpha");
  if (rank == nullptr || rank->integer() == nullptr || *rank->integer() < 1)
    return fail("upcycle.adapter.config", "r must be a whole number above 0", {}, {.file = file});
  if (alpha == nullptr || !alpha->number())
    return fail("upcycle.adapter.config", "lora_alpha must be a number", {}, {.file = file});
  // rsLoRA scales by alpha / sqrt(r) instead of alpha / r.
  const bool by_root = !is_empty(config.find("use_rslora"));
  const auto r = static_cast<double>(*rank->integer());
  return AdapterConfig{*rank->integer(), *alpha->number() / (by_root ? std::sqrt(r) : r)};
}

Status place_tensor(const SafetensorsEntry& entry, const std::string& file, Adapter& adapter) {
  const std::string_view name = entry.name;
  const bool is_a = name.ends_with(kA), is_b = name.ends_with(kB);
  const std::optional<Type> type = ir_type(entry);
  if (!name.starts_with(kPrefix) || (!is_a && !is_b) || !type || !is_float(type->dtype) ||
      type->dims.size() != 2)
    return fail(
        "upcycle.adapter.tensor",
        "the tensor is not a float matrix base_model.model.NAME.lora_A.weight or lora_B.weight", {},
        {.tensor = entry.name, .file = file});
  // kA and kB have the same length, so one expression removes either suffix.
  const std::string matrix(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kA.size()));
  AdapterMatrix& place = adapter.matrices[matrix + ".weight"];
  (is_a ? place.a : place.b) = entry.name;
  // File 0: an adapter has a single file; add_tensors() renumbers it.
  adapter.weights.tensors[entry.name] = {0, entry.begin, *type};
  return {};
}

Status check_matrices(const AdapterConfig& config, const std::string& file, Adapter& adapter) {
  for (auto& [name, matrix] : adapter.matrices) {
    if (matrix.a.empty() || matrix.b.empty())
      return fail("upcycle.adapter.tensor", "the matrix has only one of lora_A and lora_B", {},
                  {.tensor = name, .file = file});
    const Dims &a = adapter.weights.find(matrix.a)->type.dims,
               &b = adapter.weights.find(matrix.b)->type.dims;
    if (a[0] != config.rank || b[1] != config.rank)
      return fail("upcycle.adapter.shape",
                  fmt::format("lora_B {} and lora_A {} do not have the rank {} of the config",
                              to_string(b), to_string(a), config.rank),
                  {}, {.tensor = name, .file = file});
    matrix.factor = config.factor;
  }
  return {};
}

// Errors: file.*, json.*, safetensors.*, and
//   upcycle.adapter.config  a key is missing or has the wrong type
//   upcycle.adapter.kind    not a plain update B · A of a single rank: another peft_type, DoRA,
//                           biases, additional whole modules, ranks by pattern, transposed matrices
//   upcycle.adapter.tensor  an unexpected tensor name, or lora_A without lora_B or vice versa
//   upcycle.adapter.shape   B and A do not multiply, or their rank differs from the config's
Result<Adapter> read_adapter(const std::string& folder) {
  MOEC_ASSIGN(const AdapterConfig config, read_adapter_config(folder + "/" + kConfigFile));
  const std::string file = folder + "/" + kWeightFile;
  MOEC_ASSIGN(const SafetensorsHeader header, read_safetensors(file));
  Adapter adapter;
  adapter.weights.files.push_back({file, header.file_bytes, header.identity});
  for (const SafetensorsEntry& entry : header.tensors) MOEC_TRY(place_tensor(entry, file, adapter));
  if (adapter.matrices.empty())
    return fail("upcycle.adapter.tensor", "the adapter has no tensors", {}, {.file = file});
  MOEC_TRY(check_matrices(config, file, adapter));
  return adapter;
}

bool has_experts(const ModelConfig& model) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const LayerConfig& layer) { return layer.moe; });
}

Status check_plain(const Checkpoint& checkpoint, const std::string& source) {
  // Blocks of a GGUF file are dequantized by the reader, so they are allowed.
  if (checkpoint.config.stored.coding == WeightCoding::gguf_blocks) return {};
  if (checkpoint.config.stored.coding != WeightCoding::plain)
    return fail(
        "upcycle.quantised",
        fmt::format("the weights are stored as {}", enum_name(checkpoint.config.stored.coding)),
        "pass a checkpoint in bf16, f16 or f32", {.file = source});
  for (const auto& [name, range] : checkpoint.weights.tensors)
    if (range.type.dtype == DType::f8_e4m3)
      return fail("upcycle.quantised", "this tensor is stored as f8_e4m3",
                  "pass a checkpoint in bf16, f16 or f32", {.tensor = name, .file = source});
  return {};
}

// Rejects GGUF files, which rename all tensors, if names matter: --from-moe writes experts under
// the names of the checkpoint, and adapters refer to these names.
Status check_names(const UpcycleOptions& options) {
  if (!names_gguf(options.source)) return {};
  const bool adapters = !options.sources.adapters.empty();
  if (options.sources.multiply == 0 && !adapters) return {};
  return fail("upcycle.source_gguf",
              fmt::format("tensor names of a GGUF file differ from those of {}",
                          adapters ? "the adapters" : "the checkpoint that --from-moe writes"),
              "pass the checkpoint folder", {.file = options.source});
}

Result<Checkpoint> open_plain(const std::string& source, const FamilyOptions& family) {
  MOEC_ASSIGN(Checkpoint checkpoint, open_source(source, family, equal_tensors));
  MOEC_TRY(check_plain(checkpoint, source));
  return checkpoint;
}

Status check_kind(const ModelConfig& model, const UpcycleOptions& options) {
  if (options.sources.multiply == 0 && has_experts(model))
    return fail("upcycle.moe_already", "the model already has experts",
                "pass --from-moe to multiply its experts", {.file = options.source});
  if (options.sources.multiply > 0 && !has_experts(model))
    return fail("upcycle.not_moe",
                "--from-moe requires a model with experts, but this model is dense",
                "leave out --from-moe", {.file = options.source});
  return {};
}

Status differs(const std::string& source, const std::string& what, const std::string& base,
               const std::string& other) {
  return fail("upcycle.shape",
              fmt::format("{} is {} here and {} in the dense model", what, other, base),
              "pass models of the same architecture and size", {.file = source});
}

// Checks that the feed-forward parts of both models have the same shape.
Status check_same_shape(const ModelConfig& base, const ModelConfig& other,
                        const std::string& source) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  if (base.hidden != other.hidden)
    return differs(source, "hidden_size", number(base.hidden), number(other.hidden));
  if (base.mlp.ff != other.mlp.ff)
    return differs(source, "intermediate_size", number(base.mlp.ff), number(other.mlp.ff));
  if (base.layers.size() != other.layers.size())
    return differs(source, "the number of layers", number(base.layers.size()),
                   number(other.layers.size()));
  if (base.mlp.gating != other.mlp.gating)
    return differs(source, "the activation", std::string(enum_name(base.mlp.gating.activation)),
                   std::string(enum_name(other.mlp.gating.activation)));
  // `parts` must agree per layer, because experts are taken from the same layer of every model.
  for (size_t i = 0; i < base.layers.size(); ++i)
    if (base.layers[i].parts != other.layers[i].parts || other.layers[i].moe)
      return differs(source, fmt::format("layer {}", i), "dense", "of another kind");
  return {};
}

Status add_expert_model(const std::string& folder, const FamilyOptions& family,
                        DenseModels& models) {
  MOEC_ASSIGN(Checkpoint checkpoint, open_plain(folder, family));
  MOEC_TRY(check_same_shape(models.dense.model, checkpoint.config, folder));
  // The prefix has the index of the part, so models with equal tensor names do not collide.
  FfnSource source{
      std::move(checkpoint.config), fmt::format("{}{}/", kOtherModel, models.parts.size()), {}};
  add_tensors(models.weights, checkpoint.weights, source.prefix);
  models.parts.push_back(std::move(source));
  return {};
}

// Names of the dense feed-forward matrices of the layers that get experts.
std::vector<std::string> ffn_names(const ModelConfig& model, const std::vector<int64_t>& layers) {
  std::vector<std::string> names;
  for (const NeededRole& role : needed_roles(model)) {
    const bool chosen =
        layers.empty() || std::find(layers.begin(), layers.end(), role.layer) != layers.end();
    if (role.layer >= 0 && chosen && is_ffn_role(role.role))
      names.push_back(model.names(role.role, role.layer));
  }
  return names;
}

Status check_target(const AdapterMatrix& matrix, const Adapter& adapter, const std::string& name,
                    const FfnSource& dense, const WeightTable& weights) {
  const TensorRange* found = weights.find(dense.prefix + name);
  const Dims product = {adapter.weights.find(matrix.b)->type.dims[0],
                        adapter.weights.find(matrix.a)->type.dims[1]};
  if (found == nullptr || found->type.dims == product) return {};
  return fail(
      "upcycle.adapter.target",
      fmt::format("the adapter changes a matrix of shape {}, but the model's matrix has shape {}",
                  to_string(product), to_string(found->type.dims)),
      "pass adapters that were trained on this model", {.tensor = name});
}

Status add_adapter(const std::string& folder, const UpcycleOptions& options, DenseModels& models) {
  MOEC_ASSIGN(const Adapter adapter, read_adapter(folder));
  // Copies the dense source, because the adapter changes only some of its matrices.
  FfnSource source = models.dense;
  const std::string prefix = fmt::format("{}{}/", kOtherModel, models.parts.size());
  add_tensors(models.weights, adapter.weights, prefix);
  const std::vector<std::string> names = ffn_names(source.model, options.shape.layers);
  for (const auto& [name, matrix] : adapter.matrices) {
    // Ignoring other changes would lose a part of the adapter's training.
    if (std::find(names.begin(), names.end(), name) == names.end())
      return fail(
          "upcycle.adapter.target",
          "the adapter changes a tensor other than a feed-forward matrix of a layer that gets "
          "experts",
          "train the adapter with target_modules gate_proj, up_proj and down_proj, or merge it "
          "into a copy of the model and pass the copy as --expert",
          {.tensor = name, .file = folder});
    MOEC_TRY(check_target(matrix, adapter, name, models.dense, models.weights));
    const auto view = [&](const std::string& tensor) {
      return tensor_view(prefix + tensor, adapter.weights.find(tensor)->type);
    };
    source.adapters.emplace(name, LowRank{view(matrix.b), view(matrix.a), matrix.factor});
  }
  models.parts.push_back(std::move(source));
  return {};
}

}  // namespace

Result<DenseModels> open_models(const UpcycleOptions& options) {
  DenseModels models;
  MOEC_TRY(check_names(options));
  MOEC_ASSIGN(Checkpoint checkpoint, open_plain(options.source, options.family));
  MOEC_TRY(check_kind(checkpoint.config, options));
  MOEC_ASSIGN(models.config_text, source_config_text(options.source));
  MOEC_ASSIGN(std::optional<Family> family,
              family_of(options.family, models.config_text, config_path(options.source)));
  if (family) models.user_family = std::make_shared<const Family>(std::move(*family));
  MOEC_ASSIGN(models.config, read_config(models.config_text, config_path(options.source),
                                         models.user_family.get()));
  // Keeps the opened config, in which names of tensors and tied heads are already resolved.
  models.config.model = checkpoint.config;
  models.notes = std::move(checkpoint.warnings);
  models.dense.model = std::move(checkpoint.config);
  models.weights = std::move(checkpoint.weights);
  // Order matters: parts are numbered, and experts are assigned to parts in this order.
  for (const std::string& folder : options.sources.experts)
    MOEC_TRY(add_expert_model(folder, options.family, models));
  for (const std::string& folder : options.sources.adapters)
    MOEC_TRY(add_adapter(folder, options, models));
  // Without other models, the dense model is the source of all experts.
  if (models.parts.empty()) models.parts.push_back(models.dense);
  return models;
}

}  // namespace moec
