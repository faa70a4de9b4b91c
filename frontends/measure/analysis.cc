#include "frontends/measure/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moec {
namespace {

// Numbers of a profile are written as JSON, which has no NaN and no infinity.
bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

Status check_finite(const LayerProfile& layer) {
  if (all_finite(layer.mass) && all_finite(layer.output_norm) && all_finite(layer.saliency) &&
      all_finite(layer.largest_activation))
    return {};
  return fail(
      "analyze.nonfinite",
      fmt::format("routing weights or expert outputs of layer {} are NaN or infinite", layer.layer),
      "check the weights of the model, or analyze with another text");
}

}  // namespace

Result<Analysis> analysis_of(Measurement measured) {
  Analysis analysis{{std::move(measured.model),
                     std::move(measured.checkpoint),
                     std::move(measured.source),
                     digest_of_tokens(measured.text.tokens),
                     measured.experts,
                     measured.top_k,
                     measured.text.categories,
                     {}},
                    {},
                    {},
                    measured.text.window,
                    measured.text.windows(),
                    std::move(measured.notes)};
  const DocumentResamples resamples(measured.text);
  for (LayerMeasurement& layer : measured.layers) {
    MOEC_TRY(check_finite(layer.profile));
    analysis.layers.push_back(layer_statistics(layer, resamples));
    if (layer.sums) analysis.sums.push_back(std::move(*layer.sums));
    analysis.profile.layers.push_back(std::move(layer.profile));
  }
  return analysis;
}

Analysis analysis_of(ExpertProfile profile, Diagnostics notes) {
  Analysis analysis{std::move(profile), {}, {}, 0, 0, std::move(notes)};
  for (const LayerProfile& layer : analysis.profile.layers)
    analysis.layers.push_back(layer_statistics(layer));
  return analysis;
}

}  // namespace moec
