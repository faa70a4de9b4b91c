#include "frontends/jobs/compare/same_checkpoint.h"

#include <fmt/format.h>

namespace moec {
namespace {

Status refuse_other_checkpoint(const std::string& what, const ComparedExport& reference,
                               const ComparedExport& compared) {
  return fail("compare.checkpoint", fmt::format("the exports differ in {}", what),
              fmt::format("export the checkpoint of {} again, with the weights to compare",
                          reference.folder),
              {.file = compared.folder});
}

}  // namespace

// Uses the embedding's digest as evidence: exports with the same element type store the embedding
// identically, no matter how other weights are compressed.
Status check_same_checkpoint(const ComparedExport& reference, const ComparedExport& compared) {
  const Manifest &a = reference.manifest, &b = compared.manifest;
  // An export may lack the digest, so its absence proves nothing.
  const bool have_configs = !a.model.config_digest.empty() && !b.model.config_digest.empty();
  if (have_configs && a.model.config_digest != b.model.config_digest)
    return refuse_other_checkpoint("their config.json", reference, compared);
  if (a.model.vocab != b.model.vocab || a.logits.vocab != b.logits.vocab ||
      a.tokenizer != b.tokenizer)
    return refuse_other_checkpoint("their vocabulary", reference, compared);
  // Seeded weights do not come from the checkpoint, so the predictions are unrelated.
  if (a.build.seeded != b.build.seeded)
    return refuse_other_checkpoint("the origin of weights: seeded or from the checkpoint",
                                   reference, compared);
  if (a.embedding.dtype == b.embedding.dtype && a.embedding.file.bytes == b.embedding.file.bytes &&
      a.embedding.file.digest != b.embedding.file.digest)
    return refuse_other_checkpoint("the embedding of the checkpoint", reference, compared);
  return {};
}

}  // namespace moec
