// Records in config.json how the model was made.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/jobs/upcycle/upcycle_algebra.h"
#include "frontends/jobs/upcycle/upcycle_options.h"

namespace moec {

// The options that shaped the new model, its exactness class and its factors. Folders appear as
// their last path component, so that the text is the same on every machine.
nlohmann::ordered_json provenance_json(const UpcycleOptions& options, const ExactClass& exact,
                                       const PartFactors& factors);

// Adds the provenance to a new config, and the element type if the user requested one.
void finish_config(const UpcycleOptions& options, const ExactClass& exact,
                   const PartFactors& factors, nlohmann::ordered_json& config);

// The exactness class and its reasons as JSON.
nlohmann::ordered_json exactness_json(const ExactClass& exact);

}  // namespace moec
