// What a run with a part of its experts in memory did with them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backends/runtime/session/session.h"

namespace moec {

// Lines about slots, hits and reads, the start and changes of the domain; empty for a session
// without slots.
std::string expert_report(const Session& session);

// The lines about the start; empty where the slots were empty at first.
std::string start_report(const ExpertStore& experts);

// "from token 512 on, 41.0 % of the experts were in memory, before 68.2 %: …"
std::string change_text(const DomainChange& change);

// The same as JSON, of a session with slots.
nlohmann::ordered_json expert_json(const Session& session);

}  // namespace moec
