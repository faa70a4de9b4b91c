// The nodes of a gateway, from a JSON file:
//
//   {"nodes": [{"name": "node0", "url": "http://10.0.0.1:8080", "group": "node0",
//               "api": "moec", "max_requests": 64, "api_key_file": "node0.key"}, …],
//    "table": "probe.json"}
//
// name      unique; in logs, metrics and paths
// url       http://HOST:PORT, without a path
// group     the node's group of experts in `table` (default: the name)
// api       moec (default), or openai: a server without probes and resumed texts, such as
//           llama-server
// max_requests   requests at the same time (default: 64)
// api_key_file   a file with the key that the node requires; relative to the folder of this file
// table     a probe table (ir/experts/probe_table.h), also relative; optional
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/enum_table.h"
#include "ir/experts/probe_table.h"

namespace moec {

enum class NodeApi : uint8_t { moec, openai };
constexpr auto enum_names(NodeApi) { return name_table<NodeApi>({"moec", "openai"}); }

struct RouteNode {
  std::string name, url, group;
  NodeApi api = NodeApi::moec;
  int64_t max_requests = 64;
  std::string api_key;  // empty: none
};

struct RouteNodes {
  std::vector<RouteNode> nodes;
  std::optional<ProbeTable> table;
};

// Errors: route.file, route.syntax, route.missing_field, route.unknown_field, route.bad_value (also
// a name twice, a URL of another form, a group that the table lacks); those of read_api_key() and
// read_probe_table().
Result<RouteNodes> read_route_nodes(const std::string& path);

}  // namespace moec
