#include "backends/formats/genai/decoder_inputs.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "backends/formats/genai/attention_mask.h"
#include "backends/formats/genai/fused_attention.h"
#include "backends/formats/genai/model_file.h"
#include "backends/formats/genai/symbolic_graph.h"
#include "backends/formats/onnx/set_attributes.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr const char* kIds = "input_ids";
constexpr const char* kAttentionMask = "attention_mask";
constexpr const char* kPositions = "position_ids";
constexpr const char* kTotalSize = "size.total";

}  // namespace

DecoderInputs::DecoderInputs(const Manifest& manifest, onnx::GraphProto& graph, GraphNodes& nodes)
    : manifest_(manifest), graph_(graph), nodes_(nodes) {
  declare(kIds, "tokens");
  declare(kAttentionMask, "total");
  const auto length = [&](const char* input, const std::string& name) {
    nodes_.slice(nodes_.add("Shape", {input}, name + "/shape"), 1, 2, 0, name);
  };
  length(kIds, kTokensSize);
  length(kAttentionMask, kTotalSize);
  nodes_.add("Sub", {kTotalSize, kTokensSize}, kPastSize);
  const std::string rows = add_table("embed.weight", manifest.embedding, graph);
  nodes_.add("Gather", {rows, nodes_.reshape(kIds, {-1}, "ids")}, std::string(kEmbedEdge));
}

void DecoderInputs::declare(const std::string& name, const std::string& size) {
  declare_port(name, DType::i64, {{1, {}}, {0, size}}, *graph_.add_input());
}

const std::string& DecoderInputs::positions() {
  if (!positions_.empty()) return positions_;
  declare(kPositions, "tokens");
  return positions_ = nodes_.reshape(kPositions, {-1}, "positions");
}

std::string DecoderInputs::rope_columns(int64_t begin, int64_t count, const std::string& name) {
  if (rope_rows_.empty())
    rope_rows_ =
        nodes_.add("Gather", {add_table("rope.weight", manifest_.rope->table, graph_), positions()},
                   "rope_rows");
  return nodes_.slice(rope_rows_, begin, begin + count, 1, name);
}

// Key k has position k, because the cache holds all earlier tokens.
std::string DecoderInputs::mask(const InputBinding& binding, const std::string& name) {
  const std::string total = nodes_.add("Squeeze", {kTotalSize}, name + "/total");
  const std::string keys =
      nodes_.add("Range", {nodes_.integer(0), total, nodes_.integer(1)}, name + "/keys");
  const std::string queries = nodes_.reshape(positions(), {-1, 1}, name + "/queries");
  add_attention_mask(nodes_, binding, {keys, queries, {}}, name,
                     {manifest_.build.dtype, manifest_.masked_value});
  return name;
}

void DecoderInputs::count_keys(const std::string& past_keys) {
  if (std::exchange(counts_keys_, true)) return;
  const auto size_of = [&](const std::string& value, int64_t axis, const std::string& name) {
    return nodes_.slice(nodes_.add("Shape", {value}, name + "/shape"), axis, axis + 1, 0, name);
  };
  // A sum of two values of different sizes fails. One is never 1 if the other is not: a mask of one
  // column belongs to a first token, and after it both count more.
  const std::string rows =
      nodes_.add("Add", {size_of(past_keys, 2, "cache_rows"), kTokensSize}, "all_rows");
  const std::string zeros = nodes_.add(
      "Expand", {nodes_.integer(0), nodes_.concat({nodes_.integers({1}), rows}, 0, "rows_shape")},
      "rows_zeros");
  const std::string total =
      size_of(nodes_.add("Add", {kAttentionMask, zeros}, "mask_has_all_rows"), 1, "keys_size");
  const auto as_i32 = [&](const std::string& size, const char* name) {
    set_int(nodes_.node("Cast", {size}, name), "to", onnx::TensorProto::INT32);
  };
  as_i32(nodes_.add("Sub", {total, nodes_.integers({1})}, "last_key"), kLastKey);
  as_i32(nodes_.add("Squeeze", {total}, "keys"), kKeyCount);
}

std::string DecoderInputs::make(const InputBinding& binding, const std::string& name) {
  switch (binding.source) {
    case SourceKind::attn_mask:
      return mask(binding, name);
    case SourceKind::rope_cos:
    case SourceKind::rope_sin: {
      const int64_t width = manifest_.rope->width(binding.rotation);
      const int64_t first = manifest_.rope->column(binding.rotation);
      return rope_columns(first + (binding.source == SourceKind::rope_sin ? width : 0), width,
                          name);
    }
    case SourceKind::query_scale:
      return rope_columns(manifest_.rope->column(std::ssize(manifest_.rope->widths)), 1, name);
    case SourceKind::token_mask:
      return nodes_.add("Expand",
                        {nodes_.number(manifest_.build.dtype, 1),
                         nodes_.concat({kTokensSize, nodes_.integers({1})}, 0, name + "/shape")},
                        name);
    case SourceKind::edge:
    case SourceKind::kv_write_mask:
    case SourceKind::k_cache:
    case SourceKind::v_cache:
    case SourceKind::history:
    case SourceKind::recurrent_state:
      break;
  }
  MOEC_CHECK(false, "a decoder has no input {}", name);
}

std::string DecoderInputs::value(const InputBinding& binding) {
  std::string name(enum_name(binding.source));
  if (binding.rotation > 0) name += fmt::format("_r{}", binding.rotation);
  if (binding.window > 0) name += fmt::format("_w{}", binding.window);
  if (binding.chunk > 0) name += fmt::format("_c{}", binding.chunk);
  if (const auto found = known_.find(name); found != known_.end()) return found->second;
  return known_[name] = make(binding, name);
}

}  // namespace moec
