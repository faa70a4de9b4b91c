#include "frontends/jobs/upcycle/adapter.h"

#include <fmt/format.h>

#include <cmath>

#include "backends/formats/safetensors/safetensors.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightFile = "adapter_model.safetensors";
constexpr uint64_t kMaxConfigText = uint64_t{1} << 20;
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

struct AdapterConfig {
  int64_t rank = 0;
  double factor = 1;
};

tl::unexpected<Diagnostics> unsupported(const std::string& file, const std::string& what) {
  return fail("upcycle.adapter.kind", "the adapter is not a matrix of low rank alone: " + what,
              "merge it into a copy of the model, and give that as --expert", {.file = file});
}

bool is_empty(const JsonValue* value) {
  return value == nullptr || value->is_null() ||
         (value->array() != nullptr && value->array()->empty()) ||
         (value->object() != nullptr && value->object()->empty()) ||
         (value->boolean() != nullptr && !*value->boolean());
}

Status check_kind(const JsonValue& config, const std::string& file) {
  const JsonValue* type = config.find("peft_type");
  if (type == nullptr || type->string() == nullptr || *type->string() != "LORA")
    return unsupported(file, "peft_type must be \"LORA\"");
  for (const char* key : {"use_dora", "fan_in_fan_out", "modules_to_save", "rank_pattern",
                          "alpha_pattern", "lora_bias", "target_parameters",
                          "trainable_token_indices", "megatron_config", "layer_replication"})
    if (!is_empty(config.find(key))) return unsupported(file, fmt::format("it has {}", key));
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
    return fail("upcycle.adapter.tensor",
                "this is no matrix base_model.model.NAME.lora_A.weight or lora_B.weight of floats",
                {}, {.tensor = entry.name, .file = file});
  const std::string matrix(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kA.size()));
  AdapterMatrix& place = adapter.matrices[matrix + ".weight"];
  (is_a ? place.a : place.b) = entry.name;
  adapter.weights.tensors[entry.name] = {0, entry.begin, *type};
  return {};
}

Status check_matrices(const AdapterConfig& config, const std::string& file, Adapter& adapter) {
  for (auto& [name, matrix] : adapter.matrices) {
    if (matrix.a.empty() || matrix.b.empty())
      return fail("upcycle.adapter.tensor", "only one of lora_A and lora_B is there", {},
                  {.tensor = name, .file = file});
    const Dims &a = adapter.weights.find(matrix.a)->type.dims,
               &b = adapter.weights.find(matrix.b)->type.dims;
    if (a[0] != config.rank || b[1] != config.rank)
      return fail("upcycle.adapter.shape",
                  fmt::format("lora_B {} and lora_A {} are not of rank {}", to_string(b),
                              to_string(a), config.rank),
                  {}, {.tensor = name, .file = file});
    matrix.factor = config.factor;
  }
  return {};
}

}  // namespace

Result<Adapter> read_adapter(const std::string& folder) {
  MOEC_ASSIGN(const AdapterConfig config, read_adapter_config(folder + "/" + kConfigFile));
  const std::string file = folder + "/" + kWeightFile;
  MOEC_ASSIGN(const SafetensorsHeader header, read_safetensors(file));
  Adapter adapter;
  adapter.weights.files.push_back({file, header.file_bytes});
  for (const SafetensorsEntry& entry : header.tensors) MOEC_TRY(place_tensor(entry, file, adapter));
  if (adapter.matrices.empty())
    return fail("upcycle.adapter.tensor", "the adapter has no tensors", {}, {.file = file});
  MOEC_TRY(check_matrices(config, file, adapter));
  return adapter;
}

}  // namespace moec
