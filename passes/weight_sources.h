// The sources of a weight's view, by which WeightForms chooses its form.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ir/graph/weight_form.h"
#include "ir/graph/weight_view.h"

namespace moec {

// Calls visit(key) for each source of the view, including the sources of step parameters. Keys are
// as in WeightForms::by_source.
template <class Visit>
void each_source(const WeightView& view, const Visit& visit) {
  if (const auto* tensor = std::get_if<TensorSource>(&view.source)) visit(tensor->name);
  if (const auto* seeded = std::get_if<SeededSource>(&view.source))
    visit(fmt::format("seeded({})", seeded->seed));
  if (const auto* concat = std::get_if<ConcatSource>(&view.source))
    for (const WeightView& part : concat->parts) each_source(part, visit);
  for (const ViewStep& step : view.steps)
    for (const WeightView* parameter : parameters_of(step)) each_source(*parameter, visit);
}

}  // namespace moec
