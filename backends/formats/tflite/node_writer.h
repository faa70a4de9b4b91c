// One node of a TFLite subgraph: the op, its options, and inputs beyond the operands.
#pragma once

#include <functional>
#include <vector>

#include "backends/formats/tflite/model_writer.h"
#include "ir/graph/shard.h"

namespace moec {

struct TfliteNode {
  Builtin code{};
  int32_t version = 1;
  std::vector<int32_t> inputs;
  tflite::BuiltinOptions type = tflite::BuiltinOptions::NONE;
  flatbuffers::Offset<void> options;
};

// Adds a constant tensor of i32 values, a scalar if `dims` is empty. Returns its index.
using AddIntegers = std::function<int32_t(const std::vector<int64_t>& values, const Dims& dims)>;
// Returns the index of a constant tensor of shape [1] with the value 1.
using AddOne = std::function<int32_t(DType dtype)>;

struct NodeParts {
  flatbuffers::FlatBufferBuilder& builder;
  AddIntegers integers;
  AddOne one;
};

// Fills everything but the operands, which `node.inputs` contains already. Not for ops of several
// nodes (conv, topk) or of none (sources), nor for fused forms.
void fill_node(const Op& op, const Shard& shard, const NodeParts& context, TfliteNode& node);

// Set the options of nodes that are not ops of the IR.
void fill_fully_connected(const Type& x, flatbuffers::FlatBufferBuilder& builder, TfliteNode& node);
void fill_gelu(flatbuffers::FlatBufferBuilder& builder, TfliteNode& node);
void fill_conv(int64_t groups, flatbuffers::FlatBufferBuilder& builder, TfliteNode& node);
void fill_cast(DType from, DType to, flatbuffers::FlatBufferBuilder& builder, TfliteNode& node);
void fill_transpose(const std::vector<int64_t>& perm, const NodeParts& context, TfliteNode& node);
void fill_reshape(const Dims& dims, const NodeParts& context, TfliteNode& node);
void fill_broadcast(const Dims& dims, const NodeParts& context, TfliteNode& node);
void fill_topk(int64_t k, const NodeParts& context, TfliteNode& node);

}  // namespace moec
