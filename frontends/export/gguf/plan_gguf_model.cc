#include "frontends/export/gguf/plan_gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/formats/gguf/block_name.h"
#include "backends/formats/gguf/emit_gguf.h"
#include "backends/weights/encode/encode_blocks.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/export/gguf/gguf_request.h"
#include "frontends/export/gguf/gguf_tokenizer.h"
#include "frontends/export/gguf/model_keys.h"
#include "frontends/export/gguf/model_tensors.h"
#include "frontends/export/gguf/round_trip_check.h"
#include "frontends/sources/gguf/gguf.h"
#include "frontends/sources/gguf/gguf_config.h"
#include "frontends/sources/gguf/gguf_weights.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/open_source.h"
#include "ir/base/diagnostics.h"
#include "ir/base/invariant.h"
#include "ir/base/name_file.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

namespace {

// A tensor to store. `group` is empty if the tensor has no role in the model.
struct TypedTensor {
  std::string name;
  std::optional<WeightGroup> group;
  int64_t layer = -1;
  Dims dims;
};

class TensorTypes {
 public:
  TensorTypes(const GgufRequest& request, bool embed_is_head)
      : request_(request), embed_is_head_(embed_is_head) {}

  // True if a rule copies the tensor. A rule "copy" without a group and layers copies all tensors
  // that no other rule matches.
  bool copies(const TypedTensor& tensor) const;
  // Returns the type of a tensor that is not copied. Records it in fallbacks() if the rule's type
  // does not fit its rows.
  BlockType choose(const TypedTensor& tensor);

  const std::vector<GgufFallback>& fallbacks() const { return fallbacks_; }

 private:
  const WeightRule* rule_of(const TypedTensor& tensor) const;
  BlockType float_type(const WeightForm& form) const;

  const GgufRequest& request_;
  bool embed_is_head_;
  std::vector<GgufFallback> fallbacks_;
};

// Returns the plain block type of an element type.
BlockType block_type_of(DType dtype) {
  if (dtype == DType::f16) return BlockType::f16;
  return dtype == DType::bf16 ? BlockType::bf16 : BlockType::f32;
}

// An embedding that is also the head uses the rule of the head, unless a rule names the embedding.
const WeightRule* TensorTypes::rule_of(const TypedTensor& tensor) const {
  const WeightPolicy& policy = request_.weights;
  if (!tensor.group) return nullptr;
  const WeightRule* own = policy.rule_of(*tensor.group, tensor.layer);
  if (own != nullptr || tensor.group != WeightGroup::embed || !embed_is_head_) return own;
  return policy.rule_of(WeightGroup::head, tensor.layer);
}

bool TensorTypes::copies(const TypedTensor& tensor) const {
  if (const WeightRule* rule = rule_of(tensor)) return is_copy(rule->form);
  // Rules do not match tensors without a group. A bare `copy` covers them nevertheless.
  const std::vector<WeightRule>& rules = request_.weights.rules;
  return std::any_of(rules.begin(), rules.end(), [](const WeightRule& rule) {
    return is_copy(rule.form) && !rule.group && !rule.layers;
  });
}

BlockType TensorTypes::float_type(const WeightForm& form) const {
  const auto* plain = std::get_if<FloatForm>(&form);
  return block_type_of(plain != nullptr && plain->dtype ? *plain->dtype : request_.dtype);
}

BlockType TensorTypes::choose(const TypedTensor& tensor) {
  if (!tensor.group || tensor.group == WeightGroup::vectors) return BlockType::f32;
  const WeightRule* rule = rule_of(tensor);
  if (tensor.group == WeightGroup::router && rule == nullptr) return BlockType::f32;
  if (rule == nullptr) return block_type_of(request_.dtype);
  const auto* blocks = std::get_if<BlockForm>(&rule->form);
  if (blocks == nullptr) return float_type(rule->form);
  // A block must not span two rows.
  if (tensor.dims.rank() > 1 && tensor.dims.back() % block_format(blocks->type).elements == 0)
    return blocks->type;
  fallbacks_.push_back({tensor.name, blocks->type, BlockType::f16});
  return BlockType::f16;
}

// A GGUF source: keys and tensor names are preserved; tensors are copied or stored in other types.

struct GgufSourceTensor {
  GgufTensorInfo info;
  GgufPayload payload;
};

class GgufSource {
 public:
  GgufSource(Gguf file, ModelConfig model, Diagnostics warnings);

  // Returns the keys of the first file, except those that the new files define: alignment, parts
  // and file type. Without `tokenizer`, omits its keys and sets tokenizer.ggml.model to "none".
  Result<std::vector<GgufEntry>> entries(bool tokenizer) const;

  const std::vector<GgufTensor>& tensors() const { return file_.tensors; }
  // Returns the tensor as it will be stored. Tensors without a role in the model are copied: rotary
  // factors, tensor scales, multi-token prediction layers. Error gguf.no_values.
  Result<GgufSourceTensor> stored(size_t index, TensorTypes& types) const;

  bool embed_is_head() const { return model_.head.tied; }
  const ModelConfig& model() const { return model_; }
  const WeightTable& weights() const { return weights_; }
  const Diagnostics& warnings() const { return warnings_; }

 private:
  struct Place {
    WeightGroup group = WeightGroup::vectors;
    int64_t layer = -1;
  };

  GgufPayload copied(const GgufTensor& tensor) const;

  Gguf file_;
  ModelConfig model_;
  WeightTable weights_;
  Diagnostics warnings_;
  std::map<std::string, Place> places_;  // by name, for tensors with a role
};

constexpr std::string_view kTokenizerKeys = "tokenizer.";

// True for keys that depend on the written files and would contradict them if copied.
bool is_said_anew(std::string_view key) {
  return key.starts_with("split.") || key == kGgufAlignmentKey || key == "general.file_type";
}

// Tensors that moec cannot decode are not an obstacle, because they can be copied.
bool has_other_findings(const Diagnostics& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Diagnostic& finding) {
    return finding.severity == Severity::error && finding.code != "gguf.no_values";
  });
}

// Stores the values of `view` as elements or blocks of `type`.
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
    // A name without {i} gets the same entry for every layer, with layer -1.
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
                                             std::string(values.bytes(value))}});
  if (tokenizer) return entries;
  MOEC_ASSIGN(const std::string_view architecture,
              values.get<std::string_view>("general.architecture"));
  // Without tokens, llama.cpp needs the vocabulary size from this key.
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
  // Without a role, the values have an unknown meaning, so any conversion could be wrong.
  const bool is_kept = !has_role || types.copies(typed);
  if (!is_kept) made.info.type = types.choose(typed);
  if (is_kept || made.info.type == tensor.type) {
    // An empty tensor has no range to read.
    if (tensor.bytes > 0) made.payload = copied(tensor);
    return made;
  }
  MOEC_ASSIGN(WeightView view, gguf_view(file_, tensor));
  made.payload = float_payload(std::move(view), made.info.type);
  return made;
}

// Reads and checks headers like open_gguf(), but accepts tensors of types that moec cannot decode,
// because these tensors can be copied.
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

// Returns the bytes of floats in host order, which is little-endian on all supported machines.
std::string bytes_of(const std::vector<float>& floats) {
  const auto bytes = std::as_bytes(std::span(floats));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Contents of the model before it is split into files.
struct Contents {
  std::vector<GgufEntry> entries;
  std::vector<GgufTensorInfo> infos;
  std::vector<GgufPayload> payloads;
};

void add_tensor(const ModelTensor& tensor, TensorTypes& types, Contents& contents) {
  const TypedTensor typed{tensor.name, tensor.group, tensor.layer, tensor.dims};
  GgufPayload payload;
  BlockType type = BlockType::f32;
  if (!tensor.floats.empty()) {
    payload.bytes = bytes_of(tensor.floats);
  } else if (tensor.mxfp4 && types.copies(typed)) {
    type = BlockType::mxfp4;
    payload = {GgufCoding::paired_mxfp4, *tensor.mxfp4, {}};
  } else {
    type = types.choose(typed);
    payload = float_payload(tensor.view, type);
  }
  contents.infos.push_back({tensor.name, type, tensor.dims});
  contents.payloads.push_back(std::move(payload));
}

Status check_copies(const GgufRequest& request, const std::vector<ModelTensor>& tensors) {
  const std::vector<WeightForm> forms = request.weights.forms();
  const bool has_codes = std::any_of(tensors.begin(), tensors.end(), [](const ModelTensor& tensor) {
    return tensor.mxfp4.has_value();
  });
  if (has_codes || std::none_of(forms.begin(), forms.end(), is_copy)) return {};
  return fail("weights.copy",
              "--weights copy needs MXFP4 blocks or a GGUF file, but the checkpoint has no such "
              "codes",
              "omit copy to write the decoded values, or name a form: q8_0, q4_0, mxfp4, tq2_0",
              {.file = request.source});
}

Result<Contents> contents_of_checkpoint(const GgufRequest& request, GgufPlan& plan) {
  MOEC_ASSIGN(Checkpoint checkpoint, open_source(request.source, request.family, equal_tensors));
  plan.model = std::move(checkpoint.config);
  plan.weights = std::move(checkpoint.weights);
  plan.notes = std::move(checkpoint.warnings);
  MOEC_ASSIGN(const GgufArchitecture* architecture, gguf_architecture_of(plan.model.family));
  Contents contents;
  MOEC_ASSIGN(contents.entries, model_keys(plan.model, *architecture));
  MOEC_ASSIGN(const std::vector<ModelTensor> tensors,
              model_tensors(plan.model, plan.weights, *architecture));
  // A model that llama.cpp computes differently is refused before its tokenizer is read.
  MOEC_TRY(check_round_trip(plan.model, *architecture, contents.entries, tensors));
  MOEC_TRY(check_copies(request, tensors));
  const bool embed_is_head = plan.model.head.tied && !architecture->writing.needs_head;
  TensorTypes types(request, embed_is_head);
  for (const ModelTensor& tensor : tensors) add_tensor(tensor, types, contents);
  plan.fallbacks = types.fallbacks();
  MOEC_ASSIGN(std::vector<GgufEntry> tokenizer,
              tokenizer_keys(request.source, plan.model, request.options.tokenizer, plan.notes));
  contents.entries.insert(contents.entries.end(), std::make_move_iterator(tokenizer.begin()),
                          std::make_move_iterator(tokenizer.end()));
  return contents;
}

Result<Contents> contents_of_gguf(const GgufRequest& request, GgufPlan& plan) {
  // The family options apply to a config.json, which a GGUF file does not have.
  if (request.family.any()) MOEC_TRY(refuse_gguf(request.source));
  MOEC_ASSIGN(GgufSource source, read_gguf_source(request.source));
  Contents contents;
  MOEC_ASSIGN(contents.entries, source.entries(request.options.tokenizer));
  TensorTypes types(request, source.embed_is_head());
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    MOEC_ASSIGN(GgufSourceTensor tensor, source.stored(i, types));
    contents.infos.push_back(std::move(tensor.info));
    contents.payloads.push_back(std::move(tensor.payload));
  }
  plan.fallbacks = types.fallbacks();
  plan.model = source.model();
  plan.weights = source.weights();
  plan.notes = source.warnings();
  return contents;
}

void note_fallbacks(GgufPlan& plan) {
  if (plan.fallbacks.empty()) return;
  const GgufFallback& first = plan.fallbacks.front();
  plan.notes.push_back(
      {Severity::note,
       "gguf.fallback",
       fmt::format("the rows of {} matrices are not multiples of a {} block, so they are stored "
                   "as {}; the first is {}",
                   plan.fallbacks.size(), enum_name(first.wanted), enum_name(first.stored),
                   first.tensor),
       "see report.json for all of them",
       {}});
}

Status cut_parts(const GgufRequest& request, Contents contents, GgufPlan& plan) {
  MOEC_ASSIGN(plan.parts, plan_gguf_parts(gguf_base_name(request.source), contents.entries,
                                          contents.infos, request.options.max_file_bytes));
  // The parts keep the order of the tensors, so payloads are distributed by count.
  auto next = std::make_move_iterator(contents.payloads.begin());
  for (const GgufPart& part : plan.parts) {
    const auto count = static_cast<std::ptrdiff_t>(part.layout.tensors.size());
    plan.payloads.emplace_back(next, next + count);
    next += count;
  }
  return {};
}

}  // namespace

std::string gguf_base_name(const std::string& source) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path = fs::weakly_canonical(source, error);
  std::string name = (error ? fs::path(source) : path).filename().string();
  if (!names_gguf(source)) return name.empty() ? "model" : name;
  return without_gguf_type(gguf_model_name(std::move(name)));
}

Result<GgufPlan> plan_gguf_model(const GgufRequest& request) {
  GgufPlan plan;
  auto contents = names_gguf(request.source) ? contents_of_gguf(request, plan)
                                             : contents_of_checkpoint(request, plan);
  if (!contents) return fail(std::move(contents.error()));
  // A rule beyond the last layer would have no effect. Only the read model has the layer count.
  for (const WeightRule& rule : request.weights.rules)
    if (rule.layers && rule.layers->last >= std::ssize(plan.model.layers))
      return fail("weights.layers",
                  fmt::format("--weights {}: the model has layers 0 to {}",
                              to_string(request.weights), plan.model.layers.size() - 1),
                  "use layers in this range");
  note_fallbacks(plan);
  MOEC_TRY(cut_parts(request, *std::move(contents), plan));
  return plan;
}

}  // namespace moec
