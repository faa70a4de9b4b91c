// What the emitters of all formats ask of a shard.
#pragma once

#include <string>

#include "ir/graph/shard.h"

namespace moec {

// Only placed shards that verify are emitted. Errors: emit.form, those of verify().
Status check_placed(const Shard& shard);

// Whether the value is a weight or a constant.
bool is_source(const Shard& shard, ValueId value);

// Whether a file must state the layout of this value because it does not follow from other values:
// inputs, constants, and the results of reshape and transpose. Readers rebuild the layouts of all
// other values by type inference.
bool states_layout(const Shard& shard, ValueId value);

// One sentence for people who look at a file; `family` may be empty.
std::string describe_file(const Shard& shard, const std::string& family);

}  // namespace moec
