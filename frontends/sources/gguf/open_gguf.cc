#include "frontends/sources/gguf/open_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "backends/formats/gguf/block_name.h"
#include "frontends/sources/gguf/gguf.h"
#include "frontends/sources/gguf/gguf_config.h"
#include "frontends/sources/gguf/gguf_tensors.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kMostFactors = 4096;  // of a rotation

Result<std::vector<float>> read_floats(const Gguf& gguf, const GgufTensor& tensor) {
  if (tensor.type != BlockType::f32 || tensor.bytes > kMostFactors * sizeof(float))
    return fail("gguf.tensor_type",
                fmt::format("the factors of the rotation must be at most {} of f32, found {} of {}",
                            kMostFactors, to_string(tensor.dims), enum_name(tensor.type)),
                "Convert the model again.", {.tensor = tensor.name, .file = gguf.values.file()});
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(gguf.files[tensor.file].path));
  MOEC_ASSIGN(const std::string bytes, file.read(tensor.offset, tensor.bytes));
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

// Layers that are stored behind those of the decoder and guess further tokens. The key may state
// any number of them, so the patterns are of those that have tensors.
Result<std::set<std::string>> patterns_behind(const GgufModel& model, int64_t layers) {
  MOEC_ASSIGN(const auto more, model.file.values.find<uint32_t>(model.key("nextn_predict_layers")));
  std::set<std::string> patterns;
  for (const GgufTensor& tensor : model.file.tensors)
    if (const auto block = parse_block_name(tensor.name);
        block && block->layer >= layers && block->layer - layers < int64_t{more.value_or(0)})
      patterns.insert(block_name(block->layer, "*"));
  return patterns;
}

// The names of the architecture in place of the family's, and what a decoder does without: factors
// that the config has, and layers that guess further tokens.
Status rename_tensors(const GgufModel& gguf, ModelConfig& model) {
  model.names.by_role.clear();
  for (const auto& [role, name] : gguf.architecture.tensors) model.names.by_role[role] = name;
  model.names.ignored = {std::string(kGgufRopeFactors), "rope_factors_short.weight",
                         "rope_factors_long.weight", "*.input_scale"};
  MOEC_ASSIGN(const auto behind, patterns_behind(gguf, std::ssize(model.layers)));
  model.names.ignored.insert(model.names.ignored.end(), behind.begin(), behind.end());
  return {};
}

}  // namespace

ReadFloats float_reader(const Gguf& file) {
  return [&file](const GgufTensor& tensor) { return read_floats(file, tensor); };
}

bool names_gguf(const std::string& source) {
  if (source.ends_with(".gguf")) return true;
  std::error_code error;
  if (!std::filesystem::is_regular_file(source, error)) return false;
  const auto file = RegularFile::open(source);
  const auto start = file ? file->read(0, std::min<uint64_t>(file->size(), kGgufMagic.size())) : "";
  return start && *start == kGgufMagic;
}

Result<GgufConfigModel> gguf_model_config(const Gguf& file, const ReadFloats& read) {
  MOEC_ASSIGN(const GgufModel model, identify(file));
  MOEC_ASSIGN(GgufConfig said, gguf_config(model, read));
  MOEC_ASSIGN(HfConfig config, read_config(said.text, file.values.file(), &model.family));
  Diagnostics warnings = std::move(said.warnings);
  warnings.insert(warnings.end(), config.warnings.begin(), config.warnings.end());
  MOEC_TRY(rename_tensors(model, config.model));
  return GgufConfigModel{std::move(config.model), std::move(warnings)};
}

Result<Checkpoint> gguf_checkpoint(const Gguf& file, const ReadFloats& read) {
  MOEC_ASSIGN(GgufConfigModel said, gguf_model_config(file, read));
  MOEC_ASSIGN(const GgufModel model, identify(file));
  MOEC_ASSIGN(WeightTable weights, derive_weights(model, said.model));
  return Checkpoint{std::move(said.model), std::move(weights), std::move(said.warnings)};
}

Result<Checkpoint> open_gguf(const std::string& path) {
  MOEC_ASSIGN(const Gguf file, read_gguf(path));
  return gguf_checkpoint(file, float_reader(file));
}

Result<std::string> gguf_config_text(const std::string& path) {
  MOEC_ASSIGN(const Gguf file, read_gguf(path));
  MOEC_ASSIGN(const GgufModel model, identify(file));
  return gguf_config(model, float_reader(file)).map([](GgufConfig config) {
    return std::move(config.text);
  });
}

}  // namespace moec
