// Writes a shard as a TFLite subgraph with its signature.
//
//   weight                 tensor whose buffer is a range of the file
//   constant               tensor whose buffer is inside the flatbuffer
//   matmul                 FULLY_CONNECTED (fused_forms.h), BATCH_MATMUL
//   conv                   CONV_2D between transposes: [1,C,T,1] is [1,1,T,C] in TFLite; without a
//                          bias, with a constant one of zeros
//   unary                  NEG ABS EXP LOG SQRT LOGISTIC TANH; reciprocal: DIV of 1, of shape [1];
//                          erf only inside a GELU (fused_forms.h)
//   binary, compare        ADD SUB MUL DIV MAXIMUM MINIMUM, GREATER LESS EQUAL
//   select, cast           SELECT_V2, CAST
//   reduce, softmax, topk  SUM MEAN REDUCE_MAX, SOFTMAX, TOPK_V2 (and a CAST of its i32 indices)
//   shape ops              SLICE CONCATENATION RESHAPE TRANSPOSE
// Sizes and axes are i32 constants. An output whose value is an input, a weight, or also another
// output becomes a BROADCAST_TO to its own shape. Ops that no output needs are omitted. The model's
// metadata contain, for each subgraph, what TFLite cannot express (backends/emit/graph_metadata.h):
//   moec.t16.shard    the shard's name
//   moec.t16.layouts  layouts of inputs, constants, reshapes and transposes that are not plain
//   moec.t16.names    labels that differ from those of label_of_tensor() (path_names.h)
//   moec.t16.weights  layer and experts of each weight
#pragma once

#include <optional>
#include <string>

#include "backends/emit/data_layout.h"
#include "backends/emit/moe_layers.h"
#include "backends/formats/tflite/model_writer.h"
#include "ir/graph/shard.h"

namespace moec {

// Adds the shard under the signature key `function`, with metadata. The shard must have passed
// check_tflite(), and `layout` must contain its weights. Without `moe_layers`, writes no owners.
void add_shard(const Shard& shard, const DataLayout& layout, const std::string& function,
               const std::optional<MoeLayers>& moe_layers, ModelWriter& model);

}  // namespace moec
