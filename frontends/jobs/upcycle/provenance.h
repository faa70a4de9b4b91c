// What a new config.json says about its origin.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/jobs/upcycle/upcycle_algebra.h"
#include "frontends/jobs/upcycle/upcycle_options.h"

namespace moec {

// The options that decided about the new model, its class of exactness and factors. Folders are
// named by their last component, so that the text does not depend on where they lie.
nlohmann::ordered_json provenance_json(const UpcycleOptions& options, const ExactClass& exact,
                                       const PartFactors& factors);

// What both kinds of plans add to a new config: the origin above, and the element type, where one
// was asked for.
void finish_config(const UpcycleOptions& options, const ExactClass& exact,
                   const PartFactors& factors, nlohmann::ordered_json& config);

// "exact" and its reasons.
nlohmann::ordered_json exactness_json(const ExactClass& exact);

}  // namespace moec
