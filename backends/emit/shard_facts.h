// Queries about a shard, shared by the emitters of all formats.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph/shard.h"

namespace moec {

// Fails unless the shard is in form placed and passes verify(). Errors: emit.form, those of
// verify().
Status check_placed(const Shard& shard);

// Fails with emit.state if the shard has a state, which files of `format` ("ONNX") cannot express.
Status check_stateless(const Shard& shard, std::string_view format);

// Fails with emit.constant if a value of a constant is out of range for the constant's element
// type.
Status check_constants(const Shard& shard);

// The op's place in the shard, for errors. A state write has no result, so it has no label.
Place place_of(const Shard& shard, const Op& op);

// True if a file must state the layout of this value: inputs, constants, and the results of reshape
// and transpose. Readers infer the layouts of all other values.
bool states_layout(const Shard& shard, ValueId value);

// True for a transpose from [N, K] to [K, N].
bool is_row_to_column(const Op& op);

// The weight [N, K] whose transpose, [K, N] or [1, …, K, N], is the value; an invalid id if there
// is none. encode_weights stores matrices in this form.
ValueId turned_weight(const Shard& shard, ValueId value);

// A one-line description for the file's metadata; `family` may be empty.
std::string describe_file(const Shard& shard, const std::string& family);

}  // namespace moec
