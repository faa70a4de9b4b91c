#include "frontends/jobs/validate/check_golden.h"

#include <fmt/format.h>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/top_k.h"

namespace moec {
namespace {

Status refuse_other_model(const Manifest& manifest, const Golden& golden) {
  const std::string& config = manifest.model.config_digest;
  // An export without a digest cannot be checked.
  if (config.empty() || config == golden.config_digest()) return {};
  return fail(
      "golden.other_model",
      fmt::format("the digest of the golden's config.json is {}, but that of the export is {}",
                  golden.config_digest(), manifest.model.config_digest),
      "pass the golden of this model, or export the golden's model", {.file = golden.folder()});
}

// The session's top-k must equal the golden's. Confidence-based top-k is allowed, because the
// golden then measures its error.
Status refuse_other_top_k(const Session& session, const Golden& golden) {
  const Manifest& manifest = session.manifest();
  const TopKChoice& choice = session.top_k();
  if (choice.threshold) return {};
  const ExpertGrid grid = manifest.top_k ? top_k_grid(manifest) : expert_grid(manifest);
  TopKVariant wanted;
  if (!grid.layers.empty()) wanted = uniform_variant(grid, grid.top_k);
  // A golden with an explicit top-k replaces the model's.
  if (!golden.top_k().empty()) {
    MOEC_ASSIGN(const auto forms, parse_top_k_variants(golden.top_k(), grid, golden.folder()));
    wanted = forms.front();
  }
  // An export without variants runs the top-k of its model.
  const TopKVariant runs = choice.chosen()       ? *choice.chosen()
                           : grid.layers.empty() ? TopKVariant()
                                                 : uniform_variant(grid, grid.top_k);
  if (runs == wanted) return {};
  return fail(
      "golden.other_top_k",
      fmt::format("the golden has top-k {}, but the run has top-k {}", wanted.name, runs.name),
      fmt::format("pass --top-k '{}' if the export has this variant, or make a golden with "
                  "scripts/make_golden.py --top-k '{}'",
                  wanted.name, runs.name),
      {.file = golden.folder()});
}

// Rejects a masked export, because goldens use all experts. An explicit mask in the options is
// accepted as a request to measure the error of the mask.
Status refuse_unasked_mask(const Manifest& manifest, const std::string& folder,
                           const SessionOptions& options) {
  if (manifest.build.expert_mask.empty() || !options.expert_mask.empty()) return {};
  return fail(
      "validate.masked",
      fmt::format("the export is masked ({}), but the golden uses all experts",
                  manifest.build.expert_mask),
      "pass the export's --expert-mask to measure the error of the mask, or export without a mask",
      {.file = folder});
}

}  // namespace

Status check_golden(const Golden& golden, const Session& session, const std::string& folder,
                    const SessionOptions& options) {
  MOEC_TRY(refuse_other_model(session.manifest(), golden));
  MOEC_TRY(refuse_other_top_k(session, golden));
  return refuse_unasked_mask(session.manifest(), folder, options);
}

}  // namespace moec
