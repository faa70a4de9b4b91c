// Keys of a config that lie in an object of it, "sparse_attention_config.sparse_topk_blocks", and
// entries of its lists by their number, "moe_intermediate_size.0".
#pragma once

#include <string_view>

#include "ir/base/diagnostics.h"
#include "ir/base/json.h"
#include "models/families/family.h"

namespace moec {

// The config with the members of each object that the descriptor names keys of in the object's
// place, as OBJECT.MEMBER, and the entries of such a list as LIST.NUMBER. All places stay those of
// the text. What is absent or null has no members. Errors: hf.config.type where something else
// stands in its place; hf.config.unknown_key where the config has a key of such a form itself.
Result<JsonValue> with_inner_keys(const JsonValue& config, const Family& family,
                                  std::string_view text, const JsonSource& source);

}  // namespace moec
