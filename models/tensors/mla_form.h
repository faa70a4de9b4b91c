// The form in which latent attention is built (models/shards/latent_attention.h has the formulas).
#pragma once

#include "ir/model/model_config.h"
#include "ir/model/plan.h"

namespace moec {

// Sets the form, and with it kv_heads, head_dim and value_dim: the sizes of what the form caches.
// `attention` must have a latent.
void choose_mla(AttentionConfig& attention, MlaForm form);

}  // namespace moec
