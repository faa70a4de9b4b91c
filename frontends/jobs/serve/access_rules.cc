#include "frontends/jobs/serve/access_rules.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

Refusal refused(int status, std::string code, std::string cause, std::string next) {
  return {status, {Severity::error, std::move(code), std::move(cause), std::move(next), {}}};
}

// The host of "host:port", "[address]:port", or either without a port.
std::string host_of(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool may_call(const std::string& host, const AccessRules& rules) {
  return host == "localhost" || is_address(host) || has(rules.hosts, host);
}

bool may_ask(const std::string& origin, const std::string& host, const AccessRules& rules) {
  return origin == "http://" + host || origin == "https://" + host || has(rules.origins, origin) ||
         has(rules.origins, "*");
}

// Takes the same time for every key of one length.
bool has_key(const httplib::Request& request, const std::string& key) {
  const std::string given = request.get_header_value("Authorization"), wanted = "Bearer " + key;
  if (given.size() != wanted.size()) return false;
  unsigned differing = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    differing |= static_cast<unsigned char>(given[i] ^ wanted[i]);
  return differing == 0;
}

bool is_json(std::string type) {
  type = type.substr(0, type.find_first_of("; "));
  std::transform(type.begin(), type.end(), type.begin(), ::tolower);
  return type.empty() || type == "application/json";
}

}  // namespace

std::optional<Refusal> refusal_of(const httplib::Request& request, const AccessRules& rules) {
  const std::string host = request.get_header_value("Host");
  if (!host.empty() && !may_call(host_of(host), rules))
    return refused(403, "serve.host",
                   fmt::format("the server is not called {}", printable(host, 60)),
                   "call it by its address, or start it with --allow-host");
  const std::string origin = request.get_header_value("Origin");
  if (!origin.empty() && !may_ask(origin, host, rules))
    return refused(403, "serve.origin",
                   fmt::format("pages of {} may not ask", printable(origin, 60)),
                   "start the server with --allow-origin");
  if (request.method == "OPTIONS") return std::nullopt;
  if (!rules.api_key.empty() && request.path != "/health" && !has_key(request, rules.api_key))
    return refused(401, "serve.unauthorized", "the request does not have the server's key",
                   "send it as Authorization: Bearer KEY");
  if (request.method != "POST") return std::nullopt;
  if (!is_json(request.get_header_value("Content-Type")))
    return refused(
        415, "serve.content_type",
        fmt::format("the body is {}", printable(request.get_header_value("Content-Type"), 60)),
        "send Content-Type: application/json");
  if (request.has_header("Content-Encoding"))
    return refused(415, "serve.content_encoding", "the body is compressed", "send it as it is");
  return std::nullopt;
}

void allow_origin(const httplib::Request& request, const AccessRules& rules,
                  httplib::Response& response) {
  const std::string origin = request.get_header_value("Origin");
  if (!has(rules.origins, origin) && !has(rules.origins, "*")) return;
  if (origin.empty()) return;
  response.set_header("Access-Control-Allow-Origin", origin);
  response.set_header("Vary", "Origin");
  if (request.method != "OPTIONS") return;
  response.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  response.set_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
  response.set_header("Access-Control-Max-Age", "600");
}

Result<std::string> read_api_key(const std::string& path) {
  MOEC_ASSIGN(std::string key, read_user_text(path, "serve.api_key"));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  const bool is_word =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (!key.empty() && is_word) return key;
  return fail("serve.api_key", "the file is not one line of printable characters without spaces",
              "write the key alone into the file", {.file = path});
}

}  // namespace moec
