// The servers of a cluster, from a JSON file:
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

struct NodeServer {
  std::string name, url, group;
  NodeApi api = NodeApi::moec;
  int64_t max_requests = 64;
  std::string api_key;  // empty: none
};

struct NodeServers {
  std::vector<NodeServer> nodes;
  std::optional<ProbeTable> table;
};

// Errors: nodes.file, nodes.syntax, nodes.missing_field, nodes.unknown_field, nodes.bad_value (also
// a name twice, a URL of another form, a group that the table lacks); those of read_api_key() and
// read_probe_table().
Result<NodeServers> read_node_servers(const std::string& path);

// Returns the servers of a list whose items are URLs of the form http://HOST:PORT or files as
// above. The name of a URL is HOST:PORT. Errors: nodes.list (a URL of another form, a server
// twice), those of read_node_servers().
Result<std::vector<NodeServer>> list_node_servers(const std::vector<std::string>& items);

}  // namespace moec
