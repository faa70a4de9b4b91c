// The report of an upcycling as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "frontends/jobs/upcycle/upcycle_model.h"

namespace moec {

// The source, the new model's architecture and sizes, its class of exactness, the factors of its
// experts, the files with bytes and digests, and the comparison if there was one.
nlohmann::ordered_json upcycle_json(const UpcycleReport& report, double seconds);

// What falls short of the bound of --verify: an error upcycle.verify; empty: nothing.
Diagnostics shortfalls(const UpcycleReport& report);

}  // namespace moec
