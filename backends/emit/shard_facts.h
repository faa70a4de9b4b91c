// Queries about a shard, shared by the emitters of all formats.
#pragma once

#include <string>

#include "ir/graph/shard.h"

namespace moec {

// Fails unless the shard is in form placed and passes verify(). Errors: emit.form, those of
// verify().
Status check_placed(const Shard& shard);

// True if a file must state the layout of this value: inputs, constants, and the results of reshape
// and transpose. Readers infer the layouts of all other values.
bool states_layout(const Shard& shard, ValueId value);

// A one-line description for the file's metadata; `family` may be empty.
std::string describe_file(const Shard& shard, const std::string& family);

}  // namespace moec
