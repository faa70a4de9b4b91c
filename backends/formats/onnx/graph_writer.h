// One shard as an ONNX graph: opset 17, IR version 8, one node for each op that is not a weight or
// a constant.
//
//   weight                 initializer with external data; an encoded one as encoded_weights.h says
//   constant               initializer; a splat of several elements: a scalar initializer + Expand
//   unary                  Neg Abs Exp Log Sqrt Reciprocal Sigmoid Tanh Erf
//   binary, compare        Add Sub Mul Div Max Min, Greater Less Equal
//   select, cast           Where, Cast
//   reduce, softmax, topk  ReduceSum ReduceMean ReduceMax, Softmax, TopK
//   shape ops, conv, matmul  Slice Concat Reshape Transpose, Conv, MatMul
// Sizes and axes that ONNX takes as inputs are i64 initializers; equal ones share an initializer.
// An output that passes on an input, a weight, or a value that another output has already is an
// Identity node.
//
// The model's metadata_props hold what ONNX cannot express, for readers that rebuild the shard:
//   moec.shard    the shard's name
//   moec.sources  positions in the shard's op list of the ops that are the first initializers; that
//                 of an encoded weight holds its codes
//   moec.layouts  lines "channels NAME" for inputs, constants, reshapes and transposes that are not
//                 plain; the layouts of all other values follow from these
//   moec.names    lines "LABEL NAME" for values whose label in the IR is not their tensor's name
//   moec.weights  the layer and the experts of each weight, in the lines of
//                 ir/graph/weight_owner.h
#pragma once

#include <optional>
#include <span>
#include <string>

#include "backends/emit/data_layout.h"
#include "backends/emit/expert_order.h"
#include "backends/emit/moe_layers.h"
#include "backends/formats/onnx/graph_names.h"
#include "backends/formats/onnx/onnx_options.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace onnx {
class ModelProto;
}

namespace moec {

// What the model states in addition to the graph.
struct ModelTexts {
  std::string tool_version;
  std::string family;                          // may be empty
  const std::optional<MoeLayers>& moe_layers;  // without them no owners are stated
  const OnnxOptions& options;
};

// Fails when the shard cannot be an ONNX graph: emit.form, emit.state, emit.dtype, emit.encoding,
// emit.constant, emit.port_name.
Status check_emittable(const Shard& shard);

// Adds the shard's weights to the layout.
void collect_weights(const Shard& shard, const ExpertLayout& experts, DataLayout& layout);

// The shard must be emittable and its weights collected. `location` is the data file's name.
void write_model(const Shard& shard, const DataLayout& layout, const std::string& location,
                 const ModelTexts& texts, onnx::ModelProto& model);

// Adds the data file's checksum to all external initializers of the models.
void set_checksum(const std::string& sha1, std::span<onnx::ModelProto> models);

}  // namespace moec
