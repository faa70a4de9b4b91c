#include "ir/model/kept_routing.h"

namespace moec {

// True if a score depends on the logits of all experts, as shares of a softmax do.
static bool shares_mass(Score score) {
  switch (score) {
    case Score::softmax:
    case Score::sparsemixer:
      return true;
    case Score::sigmoid:
    case Score::softmax_selected:
    case Score::sigmoid_selected:
      break;
  }
  return false;
}

KeptRouting kept_routing(const Router& router, bool choice_bias) {
  if (!shares_mass(router.score)) return KeptRouting::masked;
  // Shares grow without the removed experts, and the biases that are added to them do not.
  if (choice_bias) return KeptRouting::inflated;
  // Normalised weights do not depend on the missing experts.
  return router.renorm == Renorm::none ? KeptRouting::inflated : KeptRouting::masked;
}

}  // namespace moec
