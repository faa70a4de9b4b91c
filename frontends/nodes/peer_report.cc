#include "frontends/nodes/peer_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace moec {

std::string peer_text(const PeerCounts& counts) {
  return fmt::format(
      "[peers: {} of {} choices of experts had one that the node lacks; {} calls in {:.3f} s, at "
      "most {} host per token and layer]\n",
      counts.missed, counts.choices, counts.calls, counts.seconds, counts.most_hosts);
}

nlohmann::ordered_json peer_json(const PeerCounts& counts) {
  return {{"choices", counts.choices},
          {"missed", counts.missed},
          {"calls", counts.calls},
          {"most_hosts", counts.most_hosts},
          {"seconds", counts.seconds}};
}

}  // namespace moec
