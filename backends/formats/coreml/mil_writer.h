// One shard as an ML Program function. Every op that is not a source becomes one MIL op of the same
// meaning; all arguments are stated, by name, and each argument is the output of a `const` op
// before its first use. Arguments of equal name and value share one const.
//
//   weight                const, in weight.bin however small
//   constant              const: immediate below 10 elements or where it is no float, else in
//                         weight.bin; every element is written, also of a splat
//   neg                   mul by −1: x is the operand, y the const
//   abs exp sqrt sigmoid tanh erf        the same names
//   log and reciprocal (`inverse`)       with epsilon 0
//   add sub mul max min div              add sub mul maximum minimum real_div
//   greater less equal select            the same names
//   cast                  cast (f16, f32, i32, bool as "fp16", "fp32", "int32", "bool")
//   reduce_sum reduce_mean reduce_max    axes of one axis, keep_dims true
//   softmax               softmax
//   slice                 slice_by_size
//   concat reshape transpose matmul      the same names; matmul with both transposes false
//   conv                  conv: pad_type valid, pad 0, strides and dilations 1
//   state_read            read_state
//   state_write           write_state
//   topk                  emit.op: no MIL op says which of equal scores wins
//   i64, u8, bf16, f8     emit.dtype
// An output that passes on an input, a source, or a value that another output has already is an
// `identity` op.
//
// Weights and constants keep their places among the ops. Names are the shard's labels, with '_' for
// each character outside [A-Za-z0-9_] ("experts.3.h" is experts_3_h). An unnamed value is called
// after its MIL op and its number ("mul_12"); a reserved or taken name gets a suffix. An op is
// named after its output. Port and state names are kept unchanged. A single function is called
// "main".
//
// In a range package the shard of the least width is written. Sizes that differ in the shard of the
// largest width are unknown, and are −1 in the arguments of reshape (at most one) and of
// slice_by_size (where it means: to the end).
//
// The model's userDefined metadata hold what MIL cannot express, for readers that rebuild the
// shard. KEY is "moec", with several functions "moec.FUNCTION". Entries without lines are left out.
//   KEY.shard     the shard's name
//   KEY.layouts   lines "channels NAME" for inputs, states, constants, reshapes and transposes that
//                 are not plain; the layouts of all other values follow from these
//   KEY.names     lines "LABEL NAME" for values whose label in the IR is not their MIL name
//   KEY.constants names of the consts in weight.bin that are constants, one a line
//   KEY.negations names of the muls that are neg, one a line
//   KEY.weights   the layer and the experts of each weight, by the name of its const, as
//                 ir/graph/weight_owner.h has them
//   KEY.range     "LEAST LARGEST": token widths of a range package
#pragma once

#include <map>
#include <string>

#include "backends/emit/data_layout.h"
#include "backends/emit/expert_order.h"
#include "backends/emit/moe_layers.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace moec::mlmodel {
class Function;
}

namespace moec {

// Fails when the shard cannot be an ML Program function: emit.form, emit.op, emit.dtype,
// emit.constant, emit.port_name, coreml.reserved_name, coreml.states.
Status check_mil(const Shard& shard);

// Adds the shard's weights and large constants to the layout.
void collect_blobs(const Shard& shard, const ExpertLayout& experts, DataLayout& layout);

// One function of a package: a width, or a range of widths.
struct MilFunction {
  std::string name;                       // "main", "t16"
  const Shard* shard = nullptr;           // of the only or the least width
  const Shard* widest = nullptr;          // of a range; null when the function has one width
  const MoeLayers* moe_layers = nullptr;  // without them no owners are stated
};

// The shard must pass check_mil and its blobs must be collected; the shards of a range must pass
// check_range. The keys of `metadata` are without KEY: "layouts".
void write_function(const MilFunction& function, const DataLayout& layout, int spec_version,
                    mlmodel::Function& written, std::map<std::string, std::string>& metadata);

}  // namespace moec
