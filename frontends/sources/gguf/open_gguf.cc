#include "frontends/sources/gguf/open_gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "backends/formats/gguf/block_name.h"
#include "frontends/sources/gguf/gguf.h"
#include "frontends/sources/gguf/gguf_config.h"
#include "frontends/sources/gguf/gguf_model.h"
#include "frontends/sources/gguf/gguf_rope.h"
#include "frontends/sources/gguf/gguf_weights.h"
#include "ir/base/bounded_diagnostics.h"
#include "ir/base/regular_file.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/ignored_tensors.h"

namespace moec {

namespace {

constexpr std::string_view kWeight = ".weight";

// Shapes are compared without dims of 1, because files and roles can differ in them.
Dims without_ones(const Dims& dims) {
  Dims kept;
  for (int64_t axis = 0; axis < dims.rank(); ++axis)
    if (dims.at(axis) != 1) kept.push_back(dims.at(axis));
  return kept;
}

class TensorDeriver {
 public:
  TensorDeriver(const GgufModel& gguf, const ModelConfig& model) : gguf_(gguf), model_(model) {
    table_ = gguf_weights(gguf.file);
  }

  Result<WeightTable> run() {
    for (const std::string& role : missing_roles(model_))
      find("gguf.tensor_role", {},
           fmt::format("the model needs a tensor for \"{}\", but the architecture {} has none",
                       role, gguf_.architecture.name));
    // derive() needs a tensor name for each role.
    if (findings_.count() == 0)
      for (const NeededRole& needed : needed_roles(model_)) derive(needed);
    // A missing tensor is often stored under another name, which would be reported as unused.
    if (findings_.count() == 0) find_unused();
    if (findings_.count() > 0) return fail(findings_.take());
    return std::move(table_);
  }

 private:
  void find(std::string code, const std::string& tensor, std::string cause) {
    findings_.add({Severity::error,
                   std::move(code),
                   std::move(cause),
                   "convert the model again, or use its Hugging Face checkpoint",
                   {.tensor = tensor, .file = gguf_.file.values.file()}});
  }

  // Reports unused tensors, because llama.cpp may use a tensor that moec ignores.
  void find_unused() {
    for (const auto& [name, range] : table_.tensors)
      if (!used_.contains(name) && ignoring_pattern(model_, name) == nullptr)
        find("gguf.tensor_unused", name,
             fmt::format("models of the family {} do not use the tensor \"{}\"", model_.family,
                         name));
  }

  void derive(const NeededRole& needed) {
    const std::string name = model_.names(needed.role, needed.layer);
    std::optional<WeightView> view = view_of(needed, name);
    if (!view) return;
    const auto type = view_type(*view);
    const GgufForms& forms = gguf_.architecture.forms;
    const FormedTensor formed{model_, needed.role, needed.layer, needed.dims};
    const Dims wanted = gguf_dims(forms, formed);
    if (!type || without_ones(type->dims) != without_ones(wanted))
      return find("gguf.tensor_dims", name,
                  fmt::format("the {} of this model must be {}, found {}", needed.role,
                              to_string(wanted), type ? to_string(type->dims) : "none"));
    view = from_gguf_form(forms, formed, *std::move(view));
    // The table already has the stored tensor under its name. A derived view would replace it.
    const bool is_stored =
        view->steps.empty() && std::holds_alternative<TensorSource>(view->source);
    if (!is_stored) table_.derived[name] = *std::move(view);
  }

  std::optional<WeightView> view_of(const NeededRole& needed, const std::string& name) {
    // Newer converters store kv_b as two tensors; older ones store a single one.
    if (needed.role == "kv_b" && gguf_.find(name) == nullptr) return latent_matrix(needed);
    return decoded(needed.role, name);
  }

  std::optional<WeightView> decoded(const std::string& role, const std::string& name) {
    const GgufTensor* tensor = gguf_.find(name);
    used_.insert(name);
    if (tensor == nullptr) {
      find("gguf.tensor_missing", name,
           fmt::format("the tensor \"{}\" ({}) is missing", name, role));
      return std::nullopt;
    }
    auto view = gguf_view(gguf_.file, *tensor);
    if (!view) {
      for (Diagnostic& finding : view.error()) findings_.add(std::move(finding));
      return std::nullopt;
    }
    if (is_float(view_type(*view)->dtype)) return with_factor(*std::move(view), name);
    find("gguf.tensor_type", name,
         fmt::format("the tensor has type {}; weights must be floats or blocks",
                     enum_name(tensor->type)));
    return std::nullopt;
  }

  bool is_of_role(std::string_view name) const {
    const auto block = parse_block_name(name);
    const std::string pattern = block ? "blk.{i}." + std::string(block->name) : std::string(name);
    const auto& roles = model_.names.by_role;
    return std::any_of(roles.begin(), roles.end(),
                       [&](const auto& entry) { return entry.second == pattern; });
  }

  // Multiplies NAME.weight by NAME.scale, if present: one factor for the tensor, or one per expert.
  std::optional<WeightView> with_factor(WeightView view, const std::string& name) {
    if (!name.ends_with(kWeight)) return view;
    // A role's tensor is not a factor, although some roles have names of factors.
    const std::string beside = name.substr(0, name.size() - kWeight.size()) + ".scale";
    const GgufTensor* factor = gguf_.find(beside);
    if (factor == nullptr || is_of_role(beside)) return view;
    used_.insert(beside);
    const Dims dims = view_type(view)->dims;
    const Dims counts = without_ones(factor->dims);
    // The factors have an axis per expert only for the stacked matrices of experts.
    const bool by_expert = dims.rank() == 3 && counts.rank() == 1 && counts.at(0) == dims.at(0);
    auto scale = gguf_view(gguf_.file, *factor);
    if (!scale || !is_float(view_type(*scale)->dtype) || (!by_expert && counts.rank() > 0)) {
      find("gguf.tensor_dims", beside,
           fmt::format("the factors of \"{}\" must be a single float, or one float per expert",
                       name));
      return std::nullopt;
    }
    // DequantStep multiplies each block by one scale. A block is the tensor, or the matrix of an
    // expert.
    Dims block = dims, shape(std::vector<int64_t>(dims.size(), 1));
    if (by_expert) {
      block[0] = 1;
      shape[0] = dims.at(0);
    }
    return then(std::move(view),
                DequantStep{block, {then(*std::move(scale), ReshapeStep{shape})}, {}});
  }

  // Joins k_b [H, rank, nope] and v_b [H, v, rank] into kv_b [H · (nope + v), rank].
  std::optional<WeightView> latent_matrix(const NeededRole& needed) {
    const LatentConfig& latent = *model_.attention.latent;
    // Both tensors are looked up before the check, so that one run reports both as missing.
    auto keys = decoded(needed.role, block_name(needed.layer, kGgufLatentKeys));
    auto values = decoded(needed.role, block_name(needed.layer, kGgufLatentValues));
    if (!keys || !values) return std::nullopt;
    const int64_t heads = needed.dims.at(0) / (latent.key_dims + latent.value_dims);
    const Dims of_keys = {heads, latent.kv_rank, latent.key_dims};
    const Dims of_values = {heads, latent.value_dims, latent.kv_rank};
    if (view_type(*keys)->dims != of_keys || view_type(*values)->dims != of_values) {
      find("gguf.tensor_dims", block_name(needed.layer, kGgufLatentKeys),
           fmt::format("the key and value matrices must be {} and {}", to_string(of_keys),
                       to_string(of_values)));
      return std::nullopt;
    }
    keys = then(*std::move(keys), PermuteStep{{0, 2, 1}});
    // A concatenation requires equal types. f32 represents the values of every source type.
    if (view_type(*keys)->dtype != view_type(*values)->dtype)
      for (auto* part : {&keys, &values}) *part = then(*std::move(*part), CastStep{DType::f32});
    return then(concat_view(1, {*std::move(keys), *std::move(values)}), ReshapeStep{needed.dims});
  }

  const GgufModel& gguf_;
  const ModelConfig& model_;
  WeightTable table_;
  std::set<std::string, std::less<>> used_;
  BoundedDiagnostics findings_;
};

// Returns all tensors of the file. WeightTable::derived has views of the tensors that `model` needs
// in another form: blocks decoded, rows of rotated pairs separated, multiplied by factors
// (NAME.scale), or joined from the two parts of kv_b. `model` must have passed check_model() and
// use the architecture's tensor names.
//
// Errors, all in one result except those that follow from another:
//   gguf.tensor_missing  with the role
//   gguf.tensor_dims     with the expected and the found dims
//   gguf.tensor_type     a weight of integers
//   gguf.tensor_unused   a tensor that the model neither needs nor ignores
//   gguf.no_values       blocks that moec does not decode
//   gguf.tensor_role     the architecture has no name for a needed tensor
Result<WeightTable> derive_weights(const GgufModel& gguf, const ModelConfig& model) {
  return TensorDeriver(gguf, model).run();
}

Result<std::vector<float>> read_floats(const Gguf& gguf, const GgufTensor& tensor) {
  // The limit bounds the memory for a tensor from an untrusted file.
  if (tensor.type != BlockType::f32 || tensor.bytes > kMaxFactors * sizeof(float))
    return fail("gguf.tensor_type",
                fmt::format("the rotary factors must be at most {} of f32, found {} of {}",
                            kMaxFactors, to_string(tensor.dims), enum_name(tensor.type)),
                "convert the model again", {.tensor = tensor.name, .file = gguf.values.file()});
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(gguf.files[tensor.file].path));
  MOEC_ASSIGN(const std::string bytes, file.read(tensor.offset, tensor.bytes));
  // Copied, because a string's bytes need not be aligned for floats.
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

// Returns patterns of the multi-token prediction layers, which follow the decoder's layers. The key
// is untrusted and can have any value, so only layers with tensors get a pattern.
Result<std::set<std::string>> patterns_behind(const GgufModel& model, int64_t layers) {
  MOEC_ASSIGN(const auto more, model.file.values.find<uint32_t>(model.key("nextn_predict_layers")));
  std::set<std::string> patterns;
  for (const GgufTensor& tensor : model.file.tensors)
    if (const auto block = parse_block_name(tensor.name);
        block && block->layer >= layers && block->layer - layers < int64_t{more.value_or(0)})
      patterns.insert(block_name(block->layer, "*"));
  return patterns;
}

// Replaces the family's tensor names with the architecture's. Ignores tensors that are not weights
// of the decoder: rotary factors, which are already in the config, input scales, and multi-token
// prediction layers.
Status rename_tensors(const GgufModel& gguf, ModelConfig& model) {
  // A role that the architecture lacks must not keep the family's Hugging Face name.
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
  // A blob of the hub cache has a hash as its name, so the content decides.
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
  // broken_product() checks relations between sizes that the code of llama.cpp assumes.
  const std::string broken = broken_product(config.model, model.architecture);
  if (!broken.empty())
    return fail(
        "gguf.family",
        fmt::format("llama.cpp's architecture {} {}, so the file is not a model of family {}",
                    model.architecture.name, broken, model.family.model_type),
        "use the Hugging Face checkpoint of the model", {.file = file.values.file()});
  return GgufConfigModel{std::move(config.model), std::move(warnings)};
}

Result<Checkpoint> gguf_checkpoint(const Gguf& file, const ReadFloats& read) {
  MOEC_ASSIGN(GgufConfigModel said, gguf_model_config(file, read));
  MOEC_ASSIGN(const GgufModel model, identify(file));
  MOEC_ASSIGN(WeightTable weights, derive_weights(model, said.model));
  said.model.stored = gguf_storage(file);
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
