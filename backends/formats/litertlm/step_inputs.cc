#include "backends/formats/litertlm/step_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/emit/element_bytes.h"
#include "backends/formats/tflite/shard_writer.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"
#include "ir/graph/builder.h"

namespace moec {
namespace {

using tflite::BuiltinOptions;
using tflite::TensorType;

// The first key that each position sees, as f32 [S, 1].
std::string first_keys(const InputBinding& mask, int64_t rows) {
  std::vector<double> firsts;
  for (int64_t position = 0; position < rows; ++position) {
    int64_t first = 0;
    if (mask.window > 0) first = std::max(first, position - mask.window + 1);
    if (mask.chunk > 0) first = std::max(first, position / mask.chunk * mask.chunk);
    firsts.push_back(static_cast<double>(first));
  }
  return element_bytes(DType::f32, firsts);
}

std::string mask_name(const InputBinding& mask) {
  std::string name(enum_name(mask.source));
  if (mask.window > 0) name += fmt::format("_w{}", mask.window);
  if (mask.chunk > 0) name += fmt::format("_c{}", mask.chunk);
  return name;
}

// Added to the scores, [1, 1, T, S]: 0 for visible keys, at most `masked` for others. Positions
// are f32, because f16 is exact only up to 2048.
Shard mask_graph(int64_t tokens, int64_t rows, DType dtype, double masked) {
  Builder b("mask", Form::placed);
  const Type column{DType::f32, {tokens, 1}};
  const ValueId position = b.input("position", column), first = b.input("first", column);
  std::vector<double> all;
  for (int64_t key = 0; key < rows; ++key) all.push_back(static_cast<double>(key));
  const ValueId keys = b.constant({DType::f32, {1, rows}}, all, "keys");
  const ValueId zero = b.scalar_like(keys, 0);
  const auto below = [&](ValueId difference) { return b.binary(BinaryFn::min, difference, zero); };
  // Negative whole numbers for hidden keys.
  const ValueId hidden = b.add(below(b.sub(position, keys)), below(b.sub(keys, first)));
  const ValueId added = b.binary(BinaryFn::max, b.mul(hidden, b.scalar_like(hidden, -masked)),
                                 b.scalar_like(hidden, masked));
  const ValueId typed = dtype == DType::f32 ? added : b.cast(added, dtype);
  b.output("mask", b.reshape(typed, {1, 1, tokens, rows}));
  return b.finish();
}

}  // namespace

void add_decoder_tables(const DecoderFacts& facts, DataLayout& layout) {
  const DecoderTables& tables = facts.tables;
  layout.add(tables.embedding, tables.embedding_type, "embedding");
  const DType dtype = facts.manifest.build.dtype;
  for (const DecoderRotation& rotation : tables.rotations) {
    layout.add_literal(rotation.cos, dtype, "rope_cos");
    layout.add_literal(rotation.sin, dtype, "rope_sin");
  }
  if (!tables.query_scale.empty()) layout.add_literal(tables.query_scale, dtype, "query_scale");
  for (const manifest::Step& step : facts.manifest.schedule)
    for (const InputBinding& input : step.inputs)
      if (input.source == SourceKind::attn_mask)
        layout.add_literal(first_keys(input, facts.rows), DType::f32, mask_name(input));
}

StepInputs::StepInputs(const DecoderFacts& facts, int64_t tokens, const DataLayout& layout,
                       Subgraph& subgraph)
    : facts_(facts),
      tokens_(tokens),
      layout_(layout),
      subgraph_(subgraph),
      dtype_(facts.manifest.build.dtype) {
  const int32_t given = subgraph_.add_tensor({"tokens", TensorType::INT32, {1, tokens}});
  positions_ = subgraph_.add_tensor({"input_pos", TensorType::INT32, {tokens}});
  subgraph_.add_input("tokens", given);
  subgraph_.add_input("input_pos", positions_);
  int64_t count = 0;
  for (const manifest::Cache& cache : facts_.manifest.caches) {
    add_slot(fmt::format("kv_cache_k_{}", count), SourceKind::k_cache, cache);
    add_slot(fmt::format("kv_cache_v_{}", count++), SourceKind::v_cache, cache);
  }
  ids_ = subgraph_.add_tensor({"ids", TensorType::INT32, {tokens}});
  TfliteNode node{.inputs = {given}};
  fill_reshape({tokens}, subgraph_.parts(), node);
  subgraph_.add_operator(node, {ids_});
}

void StepInputs::add_slot(const std::string& name, SourceKind kind, const manifest::Cache& cache) {
  const int64_t size = kind == SourceKind::k_cache ? cache.head_dim : cache.value_dim;
  const Type type{cache.dtype, {1, cache.kv_heads, facts_.rows, size}};
  const int32_t tensor = subgraph_.add_computed(name, type);
  subgraph_.add_input(name, tensor);
  slots_.push_back({{kind, cache.layer}, {name, type, tensor}});
}

StepInputs::Slot& StepInputs::slot(const InputBinding& binding) {
  const std::pair key(binding.source, binding.layer);
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const auto& slot) { return slot.first == key; });
  MOEC_CHECK(found != slots_.end(), "layer {} has no cache", binding.layer);
  return found->second;
}

int32_t StepInputs::gather(int32_t table, int32_t ids, const std::string& name, const Type& type) {
  TfliteNode node{.code = Builtin::GATHER, .inputs = {table, ids}};
  node.type = BuiltinOptions::GatherOptions;
  node.options = tflite::CreateGatherOptions(subgraph_.parts().builder).Union();
  const int32_t rows = subgraph_.add_computed(name, type);
  subgraph_.add_operator(node, {rows});
  return rows;
}

int32_t StepInputs::embedding() {
  const DataLayout::Entry& entry = layout_.find(facts_.tables.embedding);
  const Type& type = facts_.tables.embedding_type;
  const uint32_t buffer = subgraph_.model().file_buffer(entry.offset, entry.bytes);
  const auto code = type.dtype == DType::f16 ? TensorType::FLOAT16 : TensorType::FLOAT32;
  const int32_t table = subgraph_.add_tensor({"embedding", code, type.dims, buffer});
  return gather(table, ids_, std::string(kEmbedEdge), {type.dtype, {tokens_, type.dims.at(1)}});
}

int32_t StepInputs::table(const std::string& name, const std::string& bytes, const Type& type) {
  const DataLayout::Entry& entry = layout_.find_literal(bytes, type.dtype);
  const auto code = type.dtype == DType::f16 ? TensorType::FLOAT16 : TensorType::FLOAT32;
  return subgraph_.add_tensor(
      {name + "/table", code, type.dims, subgraph_.model().file_buffer(entry.offset, entry.bytes)});
}

// The positions as f32 [T, 1].
int32_t StepInputs::positions_column() {
  if (column_ != kNoTensor) return column_;
  TfliteNode cast{.inputs = {positions_}};
  fill_cast(DType::i32, DType::f32, subgraph_.parts().builder, cast);
  const int32_t flat = subgraph_.add_computed("positions", {DType::f32, {tokens_}});
  subgraph_.add_operator(cast, {flat});
  TfliteNode reshape{.inputs = {flat}};
  fill_reshape({tokens_, 1}, subgraph_.parts(), reshape);
  column_ = subgraph_.add_computed("positions/column", {DType::f32, {tokens_, 1}});
  subgraph_.add_operator(reshape, {column_});
  return column_;
}

int32_t StepInputs::mask(const InputBinding& binding, const std::string& name) {
  const int32_t firsts =
      table(name, first_keys(binding, facts_.rows), {DType::f32, {facts_.rows, 1}});
  const int32_t first = gather(firsts, positions_, name + "/first", {DType::f32, {tokens_, 1}});
  const Shard graph = mask_graph(tokens_, facts_.rows, dtype_, facts_.manifest.masked_value);
  ShardWriter writer(graph, layout_, subgraph_);
  writer.bind(graph.inputs[0], positions_column());
  writer.bind(graph.inputs[1], first);
  writer.write_ops();
  return writer.tensor_of(graph.outputs.front().value);
}

int32_t StepInputs::make(const InputBinding& binding, const std::string& name) {
  const auto rows_of = [&](const std::string& bytes, int64_t width) {
    const int32_t all = table(name, bytes, {dtype_, {facts_.rows, width}});
    return gather(all, positions_, name, {dtype_, {tokens_, width}});
  };
  const DecoderTables& tables = facts_.tables;
  switch (binding.source) {
    case SourceKind::rope_cos:
      return rows_of(at(tables.rotations, binding.rotation).cos,
                     at(tables.rotations, binding.rotation).width);
    case SourceKind::rope_sin:
      return rows_of(at(tables.rotations, binding.rotation).sin,
                     at(tables.rotations, binding.rotation).width);
    case SourceKind::query_scale:
      return rows_of(tables.query_scale, 1);
    case SourceKind::attn_mask:
      return mask(binding, name);
    case SourceKind::edge:
    case SourceKind::kv_write_mask:
    case SourceKind::k_cache:
    case SourceKind::v_cache:
    case SourceKind::history:
    case SourceKind::recurrent_state:
    case SourceKind::token_mask:
      break;
  }
  MOEC_CHECK(false, "a decoder has no input {}", name);
}

int32_t StepInputs::value(const InputBinding& binding) {
  std::string name = mask_name(binding);
  if (binding.rotation > 0) name += fmt::format("_r{}", binding.rotation);
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  return values_[name] = make(binding, name);
}

// The indices at which rows are written: [0, 0, input_pos[0], 0].
int32_t StepInputs::cache_start() {
  if (start_ != kNoTensor) return start_;
  const NodeParts& parts = subgraph_.parts();
  TfliteNode slice{.code = Builtin::SLICE,
                   .inputs = {positions_, parts.integers({0}, {1}), parts.integers({1}, {1})}};
  slice.type = BuiltinOptions::SliceOptions;
  slice.options = tflite::CreateSliceOptions(parts.builder).Union();
  const int32_t first = subgraph_.add_computed("cache_row", {DType::i32, {1}});
  subgraph_.add_operator(slice, {first});
  const int32_t zero = parts.integers({0}, {1});
  TfliteNode concat{.code = Builtin::CONCATENATION, .inputs = {zero, zero, first, zero}};
  concat.type = BuiltinOptions::ConcatenationOptions;
  concat.options = tflite::CreateConcatenationOptions(parts.builder, 0).Union();
  start_ = subgraph_.add_computed("cache_start", {DType::i32, {4}});
  subgraph_.add_operator(concat, {start_});
  return start_;
}

int32_t StepInputs::update_cache(const InputBinding& cache, int32_t rows) {
  Slot& updated = slot(cache);
  TfliteNode node{.code = Builtin::DYNAMIC_UPDATE_SLICE,
                  .inputs = {updated.tensor, rows, cache_start()}};
  node.type = BuiltinOptions::DynamicUpdateSliceOptions;
  node.options = tflite::CreateDynamicUpdateSliceOptions(subgraph_.parts().builder).Union();
  updated.tensor = subgraph_.add_computed(updated.name + "/updated", updated.type);
  subgraph_.add_operator(node, {updated.tensor});
  return updated.tensor;
}

void StepInputs::add_outputs() {
  for (const auto& [key, slot] : slots_) subgraph_.add_output(slot.name, slot.tensor);
}

}  // namespace moec
