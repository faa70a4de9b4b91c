// Report of a run that keeps only some experts in memory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backends/runtime/session/session.h"

namespace moec {

// Returns lines about slots, hits, reads, the initial load and changes of domain; empty for a
// session without slots.
std::string expert_report(const Session& session);

// Returns lines about the initial load; empty if the slots were initially empty.
std::string start_report(const ExpertStore& experts);

// "the domain has changed at token 512: 41.0 % of the experts … were in memory, …"
std::string change_text(const DomainChange& change);

// Returns the data of expert_report() as JSON. The session must have slots.
nlohmann::ordered_json expert_json(const Session& session);

}  // namespace moec
