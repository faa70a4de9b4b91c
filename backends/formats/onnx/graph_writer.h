// Writes a shard as an ONNX graph: opset 17, IR version 8, one node per op except weights and
// constants.
//
//   weight                 initializer with external data; encoded: see write_onnx_codes.h
//   constant               initializer; a splat of several elements: a scalar initializer + Expand
//   unary                  Neg Abs Exp Log Sqrt Reciprocal Sigmoid Tanh Erf
//   binary, compare        Add Sub Mul Div Max Min, Greater Less Equal
//   select, cast           Where, Cast
//   reduce, softmax, topk  ReduceSum ReduceMean ReduceMax, Softmax, TopK
//   shape ops, conv, matmul  Slice Concat Reshape Transpose, Conv, MatMul
//   moe                    see write_moe.h
// Sizes and axes that ONNX requires as inputs are i64 initializers; equal ones are shared. An
// output whose value is an input, a weight, or also another output becomes an Identity node. The
// model's metadata_props contain what ONNX cannot express, so that readers can rebuild the shard:
//   moec.shard    the shard's name
//   moec.sources  positions in the shard's op list of the sources, which are the first
//                 initializers; for an encoded weight, the initializer contains its codes
//   moec.layouts  lines "channels NAME" for inputs, constants, reshapes and transposes that are not
//                 plain; the layouts of all other values follow from these
//   moec.names    lines "LABEL NAME" for values whose IR label differs from the tensor name
//   moec.weights  layer and experts of each weight, in the line format of ir/graph/weight_owner.h
#pragma once

#include <optional>
#include <span>
#include <string>

#include "backends/emit/data_layout.h"
#include "backends/emit/expert_order.h"
#include "backends/emit/graph_names.h"
#include "backends/emit/moe_layers.h"
#include "backends/formats/onnx/onnx_options.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace onnx {
class ModelProto;
}

namespace moec {

// Metadata of the model in addition to the graph.
struct ModelTexts {
  std::string tool_version;
  std::string family;                          // may be empty
  const std::optional<MoeLayers>& moe_layers;  // empty: write no owners
  const OnnxOptions& options;
};

// Fails if the shard cannot be expressed in ONNX: emit.form, emit.state, emit.dtype, emit.encoding,
// emit.constant, emit.port_name.
Status check_emittable(const Shard& shard);

// Adds the shard's weights to the layout.
void collect_weights(const Shard& shard, const ExpertLayout& experts, DataLayout& layout);

// The shard must have passed check_emittable() and `layout` must contain its weights. `location` is
// the data file's name.
void write_model(const Shard& shard, const DataLayout& layout, const std::string& location,
                 const ModelTexts& texts, onnx::ModelProto& model);

// Adds the data file's SHA-1 to all external initializers of the models.
void set_checksum(const std::string& sha1, std::span<onnx::ModelProto> models);

}  // namespace moec
