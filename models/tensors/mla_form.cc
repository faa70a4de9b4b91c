#include "models/tensors/mla_form.h"

namespace moec {

void choose_mla(AttentionConfig& attention, MlaForm form) {
  LatentConfig& latent = *attention.latent;
  latent.expanded = form == MlaForm::expanded;
  // Form latent caches a single head of shared_dims + kv_rank per token, which all query heads
  // share.
  attention.kv_heads = latent.expanded ? attention.heads : 1;
  attention.head_dim = latent.shared_dims + (latent.expanded ? latent.key_dims : latent.kv_rank);
  attention.value_dim = latent.expanded ? latent.value_dims : latent.kv_rank;
}

}  // namespace moec
