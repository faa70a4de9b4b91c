// A completion request as a gateway sees it. The nodes check all other fields.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "frontends/jobs/route/session_pins.h"
#include "frontends/nodes/node_servers.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct RouteRequest {
  std::string path;  // /v1/completions or /v1/chat/completions
  std::string body;  // as it was sent
  nlohmann::ordered_json fields;
  SessionId session;     // by prompt_cache_key, else by user, else by the prompt
  std::string category;  // metadata.category; may be empty
  bool stream = false;
  bool one_text = true;  // so that another node can continue it
  // With tools or log probabilities. A text does not contain them, so that only a server of moec
  // can continue after its tokens.
  bool by_tokens = false;

  bool is_chat() const { return fields.contains("messages"); }
};

// Errors: serve.syntax, serve.missing_field (neither prompt nor messages).
Result<RouteRequest> parse_route_request(std::string path, std::string body);

// The part of a text that a client has received.
struct TextSoFar {
  std::vector<int64_t> tokens;  // empty if a node does not send token ids
  std::string text;
  int64_t calls = 0;   // of tools
  int64_t events = 0;  // with text
  bool empty() const { return tokens.empty() && text.empty(); }
};

// Returns the body of a request that continues a text after `so_far`. A server of moec gets the
// tokens, if they are known. Other servers get the text: after the prompt, or as the beginning of
// the assistant's message. Nothing if this server cannot continue the text: there are several
// texts, the prompt is not a text, or request.by_tokens.
std::optional<std::string> resumed_body(const RouteRequest& request, const TextSoFar& so_far,
                                        NodeApi api);

}  // namespace moec
