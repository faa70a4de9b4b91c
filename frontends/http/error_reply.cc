#include "frontends/http/error_reply.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

namespace moec {
namespace {

std::string type_name(int status) {
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

nlohmann::ordered_json error_reply(const Diagnostics& errors) {
  const Diagnostic& first = errors.front();
  std::string message = first.cause;
  if (!first.next_step.empty()) message += "; " + first.next_step;
  return {{"error",
           {{"message", message},
            {"type", type_name(http_status(errors))},
            {"param", nullptr},
            {"code", first.code}}}};
}

int http_status(const Diagnostics& errors) {
  const std::string& code = errors.front().code;
  // Specific codes come before the prefixes, because they begin with "serve.", too.
  if (code == "serve.busy") return 429;
  // A gateway continues the text on another node.
  if (code == "serve.stopping" || code == "peers.lost") return 503;
  if (code == "serve.too_large") return 413;
  // These prefixes name mistakes in the request; all other errors are the server's.
  constexpr std::array kOfClient = {"serve.",        "run.",       "session.context_full",
                                    "session.token", "tokenizer.", "peers.bad_call"};
  const auto begins = [&](const char* prefix) { return code.starts_with(prefix); };
  return std::any_of(kOfClient.begin(), kOfClient.end(), begins) ? 400 : 500;
}

}  // namespace moec
