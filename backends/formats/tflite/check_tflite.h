// Checks that a shard can be expressed in TFLite.
#pragma once

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"

namespace moec {

// Errors: emit.form, emit.state, emit.op, emit.dtype, emit.encoding, emit.constant.
Status check_tflite(const Shard& shard);

}  // namespace moec
