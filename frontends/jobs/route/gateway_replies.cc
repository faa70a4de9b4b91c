#include "frontends/jobs/route/gateway_replies.h"

#include <nlohmann/json.hpp>

#include "frontends/http/error_reply.h"
#include "ir/base/report_json.h"

namespace moec {

NodeReply refusal_reply(int status, const std::string& code, const std::string& cause) {
  const Diagnostics errors = {{Severity::error, code, cause, "try again later", {}}};
  return {status, json_text(error_reply(errors), -1), "application/json"};
}

NodeReply busy_reply() {
  return refusal_reply(429, "serve.busy", "the nodes have as many requests as they accept");
}

NodeReply no_node_reply() {
  return refusal_reply(503, "route.no_node", "no node accepts requests");
}

}  // namespace moec
