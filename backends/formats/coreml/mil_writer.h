// Writes a shard as an ML Program function. Every op except sources becomes one equivalent MIL op.
// All arguments are stated by name, each as the output of a `const` op before its first use.
// Arguments with equal name and value share a const.
//
//   weight                const in weight.bin, regardless of its size
//   constant              const: immediate if it has fewer than 10 elements or is not a float, else
//                         in weight.bin; a splat is written element by element
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
//   topk                  emit.op: MIL does not define how ties are broken
//   i64, u8, bf16, f8     emit.dtype
// An output whose value is an input, a source, or also another output becomes an `identity` op.
// Weights and constants keep their positions among the ops. Names are the shard's labels, with '_'
// for each character outside [A-Za-z0-9_] ("experts.3.h" becomes experts_3_h). An unnamed value
// gets its MIL op and number ("mul_12"). A name that is reserved or in use gets a suffix. An op has
// the name of its output. Port and state names stay unchanged. A single function is named "main".
// For a range package, the shard of the smallest width is written. Sizes that differ in the shard
// of the largest width are written as unknown. In the arguments of reshape (at most one size) and
// slice_by_size they are −1, which means "inferred" and "to the end". The model's userDefined
// metadata contain what MIL cannot express, so that readers can rebuild the shard. KEY is "moec",
// or "moec.FUNCTION" with several functions. Empty entries are omitted.
//   KEY.shard     the shard's name
//   KEY.layouts   lines "channels NAME" for inputs, states, constants, reshapes and transposes that
//                 are not plain; the layouts of all other values follow from these
//   KEY.names     lines "LABEL NAME" for values whose IR label differs from the MIL name
//   KEY.constants names of the consts in weight.bin that are constants, one per line
//   KEY.negations names of the muls that represent neg, one per line
//   KEY.weights   layer and experts of each weight, by const name, in the line format of
//                 ir/graph/weight_owner.h
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

// Fails if the shard cannot be expressed as an ML Program function. Errors: emit.form, emit.op,
// emit.dtype, emit.constant, emit.port_name, coreml.reserved_name (a name that MIL reserves or does
// not accept), coreml.states (more than two, or not f16).
Status check_mil(const Shard& shard);

// Adds the shard's weights and large constants to the layout.
void collect_blobs(const Shard& shard, const ExpertLayout& experts, DataLayout& layout);

// One function of a package: a width, or a range of widths.
struct MilFunction {
  std::string name;                       // "main", "t16"
  const Shard* shard = nullptr;           // of the only or the smallest width
  const Shard* widest = nullptr;          // of a range; null for a single width
  const MoeLayers* moe_layers = nullptr;  // null: write no owners
};

// The shard must have passed check_mil(), and `layout` must contain its blobs. The shards of a
// range must have passed check_range(). The keys of `metadata` do not include KEY: "layouts", not
// "KEY.layouts".
void write_function(const MilFunction& function, const DataLayout& layout, int spec_version,
                    mlmodel::Function& written, std::map<std::string, std::string>& metadata);

}  // namespace moec
