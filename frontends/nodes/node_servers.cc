#include "frontends/nodes/node_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "frontends/http/server_options.h"
#include "ir/base/json_fields.h"
#include "ir/base/parse_number.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// Returns a path that is relative to the folder of `file`.
std::string resolved(const std::string& file, const std::string& path) {
  return (std::filesystem::path(file).parent_path() / path).string();
}

constexpr std::string_view kScheme = "http://";

// True for http://HOST:PORT.
bool is_server_url(std::string_view url) {
  if (!url.starts_with(kScheme)) return false;
  url.remove_prefix(kScheme.size());
  const size_t colon = url.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const auto port = parse_number<uint16_t>(url.substr(colon + 1));
  return port && *port > 0 && url.find_first_of("/ ?#@") == std::string_view::npos;
}

// Names become parts of paths and of metrics.
bool is_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

class NodesReader {
 public:
  explicit NodesReader(std::string path) : path_(std::move(path)) {}

  Result<NodeServers> read() {
    MOEC_ASSIGN(const std::string text, read_user_text(path_, "nodes.file"));
    const JsonReport report(
        text, path_,
        JsonCodes::by_prefix("nodes",
                             "see the file of nodes in README.md of frontends/jobs/route"));
    MOEC_ASSIGN(const JsonValue value, report.parse());
    MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
    MOEC_TRY(fields.each("nodes", [&](JsonFields& node) { return read_node(node); }));
    if (nodes_.nodes.empty()) return fields.bad("nodes", "is empty");
    if (fields.has("table")) MOEC_TRY(read_table(fields));
    MOEC_TRY(fields.finish());
    return std::move(nodes_);
  }

 private:
  Status read_node(JsonFields& fields) {
    NodeServer node;
    MOEC_TRY(fields.text("name", node.name));
    if (!is_name(node.name))
      return fields.bad("name", "must consist of letters, digits, \".\", \"_\" and \"-\"");
    if (!names_.insert(node.name).second) return fields.bad("name", "is used by another node");
    MOEC_TRY(fields.text("url", node.url));
    if (!is_server_url(node.url)) return fields.bad("url", "must have the form http://HOST:PORT");
    node.group = node.name;
    if (fields.has("group")) MOEC_TRY(fields.text("group", node.group));
    if (fields.has("api")) MOEC_TRY(fields.choice("api", node.api));
    if (fields.has("max_requests")) MOEC_TRY(fields.positive("max_requests", node.max_requests));
    if (fields.has("api_key_file")) {
      std::string file;
      MOEC_TRY(fields.text("api_key_file", file));
      MOEC_ASSIGN(node.api_key, read_api_key(resolved(path_, file)));
    }
    nodes_.nodes.push_back(std::move(node));
    return fields.finish();
  }

  Status read_table(JsonFields& fields) {
    std::string file;
    MOEC_TRY(fields.text("table", file));
    MOEC_ASSIGN(nodes_.table, read_any_probe_table(resolved(path_, file)));
    for (const NodeServer& node : nodes_.nodes) {
      const auto& groups = nodes_.table->groups;
      const auto is_its = [&](const ExpertGroup& group) { return group.name == node.group; };
      if (std::none_of(groups.begin(), groups.end(), is_its))
        return fields.bad("table",
                          fmt::format("has no group {} of node {}", node.group, node.name));
    }
    return {};
  }

  std::string path_;
  NodeServers nodes_;
  std::set<std::string> names_;
};

}  // namespace

Result<NodeServers> read_node_servers(const std::string& path) { return NodesReader(path).read(); }

Result<std::vector<NodeServer>> list_node_servers(const std::vector<std::string>& items) {
  const auto error = [](std::string cause, std::string next) {
    return fail("nodes.list", std::move(cause), std::move(next));
  };
  std::vector<NodeServer> servers;
  std::set<std::string> names, urls;
  for (const std::string& item : items) {
    std::vector<NodeServer> own;
    if (item.find("://") == std::string::npos) {
      MOEC_ASSIGN(NodeServers read, read_node_servers(item));
      own = std::move(read.nodes);
    } else if (is_server_url(item)) {
      const std::string name = item.substr(kScheme.size());
      own.push_back({.name = name, .url = item, .group = name});
    } else {
      return error(fmt::format("{} is not the URL of a server", printable(item)),
                   "pass URLs of the form http://HOST:PORT, or a file of nodes");
    }
    for (NodeServer& server : own) {
      // A server twice would count its texts twice.
      if (!urls.insert(server.url).second || !names.insert(server.name).second)
        return error(fmt::format("server {} at {} is listed twice", server.name, server.url),
                     "list each server once");
      servers.push_back(std::move(server));
    }
  }
  return servers;
}

}  // namespace moec
