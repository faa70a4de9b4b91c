// What models that only give experts have besides: their attention, norms and embeddings are not
// taken, so experts that were trained beside others than the dense model's may not fit it.
#pragma once

#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Compares all tensors of each model of options.sources.experts that are no feed-forward matrices
// with the dense model's. Where they differ, adds the warning upcycle.other_weights with the
// relative difference |a − b| / |b| over all of them, b those of the dense model. Errors: those of
// WeightReader, kUpcycleInterrupted.
Status note_other_weights(const UpcycleOptions& options, UpcyclePlan& plan);

}  // namespace moec
