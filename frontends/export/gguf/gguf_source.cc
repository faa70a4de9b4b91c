#include "frontends/export/gguf/gguf_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/formats/gguf/block_name.h"
#include "backends/weights/encode/encode_blocks.h"
#include "frontends/sources/gguf/gguf_config.h"
#include "frontends/sources/gguf/gguf_weights.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr std::string_view kTokenizerKeys = "tokenizer.";

bool is_said_anew(std::string_view key) {
  return key.starts_with("split.") || key == kGgufAlignmentKey || key == "general.file_type";
}

bool has_other_findings(const Diagnostics& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Diagnostic& finding) {
    return finding.severity == Severity::error && finding.code != "gguf.no_values";
  });
}

}  // namespace

GgufPayload float_payload(WeightView view, BlockType type) {
  if (const auto plain = plain_dtype(type))
    return {GgufCoding::stored, then(std::move(view), CastStep{*plain}), {}};
  return {GgufCoding::encoded, then(std::move(view), CastStep{DType::f32}), {}};
}

GgufSource::GgufSource(Gguf file, ModelConfig model, Diagnostics warnings)
    : file_(std::move(file)),
      model_(std::move(model)),
      weights_(gguf_weights(file_)),
      warnings_(std::move(warnings)) {
  const auto layers = std::ssize(model_.layers);
  for (const auto& [role, name] : model_.names.by_role) {
    const WeightGroup group = group_of_role(role).value_or(WeightGroup::vectors);
    for (int64_t layer = 0; layer < layers; ++layer)
      places_[model_.names(role, layer)] = {group,
                                            name.find("{i}") == std::string::npos ? -1 : layer};
  }
  for (int64_t layer = 0; layer < layers; ++layer)
    for (const std::string_view name : {kGgufLatentKeys, kGgufLatentValues})
      places_[block_name(layer, name)] = {WeightGroup::attn, layer};
}

Result<std::vector<GgufEntry>> GgufSource::entries(bool tokenizer) const {
  const GgufValues& values = file_.values;
  std::vector<GgufEntry> entries;
  for (const auto& [key, value] : values.keys())
    if (!is_said_anew(key) && (tokenizer || !key.starts_with(kTokenizerKeys)))
      entries.push_back({key, GgufBytesValue{value.type, value.is_array, value.count,
                                             std::string(values.bytes_of(value))}});
  if (tokenizer) return entries;
  MOEC_ASSIGN(const std::string_view architecture,
              values.get<std::string_view>("general.architecture"));
  const std::string size = std::string(architecture) + ".vocab_size";
  if (find_entry(entries, size) == nullptr)
    entries.push_back({size, static_cast<uint32_t>(model_.vocab)});
  entries.push_back({"tokenizer.ggml.model", std::string("none")});
  return entries;
}

GgufPayload GgufSource::copied(const GgufTensor& tensor) const {
  const TensorRange* range = weights_.find(tensor.name);
  MOEC_CHECK(range != nullptr, "{} has no range", tensor.name);
  return {GgufCoding::stored, tensor_view(tensor.name, range->type), {}};
}

Result<GgufSourceTensor> GgufSource::stored(size_t index, TensorTypes& types) const {
  const GgufTensor& tensor = file_.tensors[index];
  GgufSourceTensor made{{tensor.name, tensor.type, tensor.dims}, {}};
  const auto place = places_.find(tensor.name);
  const bool has_role = place != places_.end();
  TypedTensor typed{tensor.name, std::nullopt, -1, tensor.dims};
  if (has_role) {
    typed.group = place->second.group;
    typed.layer = place->second.layer;
  }
  const bool is_kept = !has_role || types.copies(typed);
  if (!is_kept) made.info.type = types.choose(typed);
  if (is_kept || made.info.type == tensor.type) {
    if (tensor.bytes > 0) made.payload = copied(tensor);
    return made;
  }
  MOEC_ASSIGN(WeightView view, gguf_view(file_, tensor));
  made.payload = float_payload(std::move(view), made.info.type);
  return made;
}

Result<GgufSource> read_gguf_source(const std::string& path) {
  MOEC_ASSIGN(Gguf file, read_gguf(path));
  auto checkpoint = gguf_checkpoint(file, float_reader(file));
  if (checkpoint)
    return GgufSource(std::move(file), std::move(checkpoint->config),
                      std::move(checkpoint->warnings));
  if (has_other_findings(checkpoint.error())) return fail(std::move(checkpoint.error()));
  MOEC_ASSIGN(GgufConfigModel said, gguf_model_config(file, float_reader(file)));
  return GgufSource(std::move(file), std::move(said.model), std::move(said.warnings));
}

}  // namespace moec
