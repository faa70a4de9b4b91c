// The form of latent attention (models/shards/latent_attention.h has the formulas).
#pragma once

#include "ir/model/model_config.h"
#include "ir/model/plan.h"

namespace moec {

// Sets the form and its cache sizes kv_heads, head_dim and value_dim. `attention` must have a
// latent.
void choose_mla(AttentionConfig& attention, MlaForm form);

}  // namespace moec
