// Reports the calls of a session to its peers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backends/runtime/session/expert_peers.h"

namespace moec {

// A line for people.
std::string peer_text(const PeerCounts& counts);
nlohmann::ordered_json peer_json(const PeerCounts& counts);

}  // namespace moec
