// One shard as an ML Program function. Every op that is not a source becomes one MIL op of the same
// meaning (state_write: one, and a read_state where its result is used); all arguments are stated,
// by name, and each argument is the output of a `const` op right before its first use.
//
//   weight                const, in weight.bin however small
//   constant              const: immediate below 10 elements, else in weight.bin
//   neg                   mul by −1
//   abs exp sqrt sigmoid tanh erf        the same names; log and reciprocal (`inverse`) with
//   epsilon 0 add sub mul max min div              add sub mul maximum minimum real_div greater
//   less equal select            the same names cast                  cast (f16, f32, i32, bool)
//   reduce_sum reduce_mean reduce_max    keep_dims true
//   softmax               softmax
//   slice                 slice_by_size
//   concat reshape transpose matmul      the same names; matmul with both transposes false
//   conv                  conv: pad_type valid, strides and dilations 1
//   state_read            read_state
//   state_write           write_state
//   topk                  emit.op: no MIL op says which of equal scores wins
//   i64, u8, bf16, f8     emit.dtype
//
// Names are the shard's labels with each character outside [A-Za-z0-9_] as '_' ("experts.3.h" is
// experts_3_h); a reserved or taken name gets a suffix. Port and state names must stand as they
// are: check_names() refuses those that cannot.
//
// What MIL cannot say stands in the model's userDefined metadata, for readers that rebuild the
// shard. KEY is "moec", with several functions "moec.FUNCTION":
//   KEY.shard     the shard's name
//   KEY.layouts   lines "channels NAME" for inputs, constants, reshapes and transposes that are not
//                 plain; the layouts of all other values follow from these
//   KEY.names     lines "LABEL NAME" for values whose label in the IR is not their MIL name
//   KEY.constants names of the consts in weight.bin that are constants, one a line
//   KEY.range     "LEAST LARGEST": token widths of a range package
#pragma once

#include <string>

#include "backends/files/data_layout.h"
#include "ir/diagnostics.h"
#include "ir/shard.h"

namespace moec::mlmodel {
class Model;
}

namespace moec {
// Declarations to be filled in by the implementation.
}  // namespace moec
