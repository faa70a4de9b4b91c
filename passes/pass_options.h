// Pass options as text, one `name=value` per option ("routing=iterate"), as used in the run lines
// of `.ir` test files and reproducers.
#pragma once

#include <string>
#include <string_view>

#include "passes/pass.h"

namespace moec {

// Sets one option. Names: routing, experts, attention, bank_channel_limit, kept_experts (slots by
// router, "0,2|1,3") and weights (WeightForms in ir/graph/weight_form.h). For the target:
// projection, sum, has_state, expand_sigmoid, coded_matmul_rank, matrix_rows, splits_zeros,
// limits.channels, limits.extent, limits.fan_in, limits.guarded, limits.exp_below,
// limits.no_reciprocals and limits.narrow_slice. Errors: passes.option.
Status set_pass_option(PassOptions& options, std::string_view name_and_value);

// Returns all options in a fixed order, separated by spaces; set_pass_option() accepts each word.
std::string to_string(const PassOptions& options);

}  // namespace moec
