// How many experts the tokens of a run took, where an export leaves a choice, and what experts of
// limited capacity dropped.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backends/runtime/session/session.h"

namespace moec {

// A line each; empty for an export without forms of top-k and without a capacity.
std::string routing_report(const Session& session);

// The same as members of a report.
void add_routing(const Session& session, nlohmann::ordered_json& json);

}  // namespace moec
