#include "frontends/export/gguf/plan_gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "backends/weights/views/equal_tensors.h"
#include "frontends/export/gguf/gguf_source.h"
#include "frontends/export/gguf/gguf_tokenizer.h"
#include "frontends/export/gguf/model_keys.h"
#include "frontends/export/gguf/model_tensors.h"
#include "frontends/export/gguf/said_model.h"
#include "frontends/export/gguf/tensor_types.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/open_source.h"
#include "ir/base/name_file.h"

namespace moec {
namespace {

// The bytes of floats, as little-endian machines hold them.
std::string bytes_of(const std::vector<float>& floats) {
  const auto bytes = std::as_bytes(std::span(floats));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What the files hold, before it is cut into parts.
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
              "--weights copy: the checkpoint has no codes that a GGUF file could hold: those are "
              "blocks of MXFP4, and of GGUF files all",
              "leave copy out for the decoded values, or name a form: q8_0, q4_0, mxfp4",
              {.file = request.source});
}

Result<Contents> contents_of_checkpoint(const GgufRequest& request, GgufPlan& plan) {
  MOEC_ASSIGN(Checkpoint checkpoint,
              open_source(request.source, request.family_file, equal_tensors));
  plan.model = std::move(checkpoint.config);
  plan.weights = std::move(checkpoint.weights);
  plan.notes = std::move(checkpoint.warnings);
  MOEC_ASSIGN(const GgufArchitecture* architecture, gguf_architecture_of(plan.model.family));
  Contents contents;
  MOEC_ASSIGN(contents.entries, model_keys(plan.model, *architecture));
  MOEC_ASSIGN(const std::vector<ModelTensor> tensors,
              model_tensors(plan.model, plan.weights, *architecture));
  MOEC_TRY(check_said_model(plan.model, *architecture, contents.entries, tensors));
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
  if (request.family_file) MOEC_TRY(refuse_gguf(request.source));
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
       fmt::format("the rows of {} matrices are no whole blocks of {}, so they are stored as {}; "
                   "the first is {}",
                   plan.fallbacks.size(), enum_name(first.wanted), enum_name(first.stored),
                   first.tensor),
       "report.json lists them all",
       {}});
}

Status cut_parts(const GgufRequest& request, Contents contents, GgufPlan& plan) {
  MOEC_ASSIGN(plan.parts, plan_gguf_parts(gguf_base_name(request.source), contents.entries,
                                          contents.infos, request.options.max_file_bytes));
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
  return gguf_model_name(std::move(name));
}

Result<GgufPlan> plan_gguf_model(const GgufRequest& request) {
  GgufPlan plan;
  auto contents = names_gguf(request.source) ? contents_of_gguf(request, plan)
                                             : contents_of_checkpoint(request, plan);
  if (!contents) return fail(std::move(contents.error()));
  for (const WeightRule& rule : request.weights.rules)
    if (rule.layers && rule.layers->last >= std::ssize(plan.model.layers))
      return fail("weights.layers",
                  fmt::format("--weights {}: the model has layers 0 to {}",
                              to_string(request.weights), plan.model.layers.size() - 1),
                  "give a range within these");
  note_fallbacks(plan);
  MOEC_TRY(cut_parts(request, *std::move(contents), plan));
  return plan;
}

}  // namespace moec
