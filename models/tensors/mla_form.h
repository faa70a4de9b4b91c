// Which form of latent attention a model is built in (models/build/latent_attention.h has the
// math).
#pragma once

#include "ir/plan/model_config.h"
#include "ir/plan/plan.h"

namespace moec {

// Of an attention with a latent: kv_heads, head_dim and value_dim become those that the form
// caches.
void choose_mla(AttentionConfig& attention, MlaForm form);

}  // namespace moec
