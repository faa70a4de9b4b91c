// Resolves keys of nested objects of a config, such as
// "sparse_attention_config.sparse_topk_blocks", and indexed entries of lists, such as
// "moe_intermediate_size.0".
#pragma once

#include <string_view>

#include "ir/base/diagnostics.h"
#include "ir/base/json.h"
#include "models/families/family.h"

namespace moec {

// Returns the config with each object or list for which the descriptor has nested keys replaced by
// its members, named OBJECT.MEMBER or LIST.INDEX. Offsets still refer to `text`. An absent or null
// object has no members. Errors: hf.config.type (the value is neither an object nor a list),
// hf.config.unknown_key (the config itself has a key of this form).
Result<JsonValue> with_inner_keys(const JsonValue& config, const Family& family,
                                  std::string_view text, const JsonSource& source);

}  // namespace moec
