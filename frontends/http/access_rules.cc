#include "frontends/http/access_rules.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/base/json.h"

namespace moec {
namespace {

Refusal refused(int status, std::string code, std::string cause, std::string next) {
  return {status, {Severity::error, std::move(code), std::move(cause), std::move(next), {}}};
}

// Extracts the host from "host:port" or "[address]:port". The port is optional.
std::string host_of(const std::string& host) {
  // An IPv6 address contains colons, so it is in brackets.
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& host) {
  // A numeric address cannot be rebound by DNS, so it needs no list of allowed names.
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool may_call(const std::string& host, const AccessRules& rules) {
  // A page of a foreign site could reach the server through a name that resolves to 127.0.0.1.
  // Checking the name prevents such DNS rebinding.
  return host == "localhost" || is_address(host) || has(rules.hosts, host);
}

bool may_ask(const std::string& origin, const std::string& host, const AccessRules& rules) {
  // A page that the server delivered has an origin equal to the request's Host.
  return origin == "http://" + host || origin == "https://" + host || has(rules.origins, origin) ||
         has(rules.origins, "*");
}

// Compares keys of equal length in constant time, to prevent timing attacks.
bool has_key(const httplib::Request& request, const std::string& key) {
  const std::string given = request.get_header_value("Authorization"), wanted = "Bearer " + key;
  // The length of the key is not secret: only equal lengths are compared.
  if (given.size() != wanted.size()) return false;
  unsigned differing = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    differing |= static_cast<unsigned char>(given[i] ^ wanted[i]);
  return differing == 0;
}

bool has_type(const httplib::Request& request, std::string_view wanted) {
  std::string type = request.get_header_value("Content-Type");
  type = type.substr(0, type.find_first_of("; "));
  std::transform(type.begin(), type.end(), type.begin(), ::tolower);
  // An absent type is accepted, because simple clients omit it.
  return type.empty() || type == wanted;
}

}  // namespace

std::optional<Refusal> refusal_of(const httplib::Request& request, const AccessRules& rules,
                                  std::string_view content_type) {
  const std::string host = request.get_header_value("Host");
  // HTTP/1.0 does not require a Host, so its absence is accepted; browsers send one.
  if (!host.empty() && !may_call(host_of(host), rules))
    return refused(403, "serve.host",
                   fmt::format("the host name {} is not allowed", printable(host, 60)),
                   "use the server's address, or start the server with --allow-host");
  const std::string origin = request.get_header_value("Origin");
  if (!origin.empty() && !may_ask(origin, host, rules))
    return refused(403, "serve.origin",
                   fmt::format("requests from pages of {} are not allowed", printable(origin, 60)),
                   "start the server with --allow-origin");
  // A preflight request carries no key by definition.
  if (request.method == "OPTIONS") return std::nullopt;
  // Health checks of load balancers usually send no key.
  if (!rules.api_key.empty() && request.path != "/health" && !has_key(request, rules.api_key))
    return refused(401, "serve.unauthorized", "the request lacks the server's key",
                   "send the key as Authorization: Bearer KEY");
  if (request.method != "POST") return std::nullopt;
  if (!has_type(request, content_type))
    return refused(
        415, "serve.content_type",
        fmt::format("the content type is {}, not {}",
                    printable(request.get_header_value("Content-Type"), 60), content_type),
        fmt::format("send Content-Type: {}", content_type));
  if (request.has_header("Content-Encoding"))
    return refused(415, "serve.content_encoding", "the body is compressed",
                   "send an uncompressed body");
  return std::nullopt;
}

void allow_origin(const httplib::Request& request, const AccessRules& rules,
                  httplib::Response& response) {
  const std::string origin = request.get_header_value("Origin");
  if (!has(rules.origins, origin) && !has(rules.origins, "*")) return;
  if (origin.empty()) return;
  response.set_header("Access-Control-Allow-Origin", origin);
  // The response depends on the origin, so a cache must not share it.
  response.set_header("Vary", "Origin");
  if (request.method != "OPTIONS") return;
  response.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  response.set_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
  response.set_header("Access-Control-Max-Age", "600");
}

}  // namespace moec
