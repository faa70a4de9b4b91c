#include "frontends/jobs/route/route_request.h"

#include <algorithm>
#include <utility>

#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& fields, const char* name) {
  const auto found = fields.find(name);
  return found != fields.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_given(const ordered_json& fields, const char* name) {
  const auto found = fields.find(name);
  return found != fields.end() && !found->is_null() && *found != false && !found->empty();
}

// Shorter prompts are the beginning of too many others.
constexpr size_t kLeastText = 64;

// The beginning of a later request of the same session: its prompt, or its messages so far.
std::string session_text(const ordered_json& fields) {
  const auto messages = fields.find("messages");
  if (messages == fields.end()) {
    const ordered_json& prompt = fields["prompt"];
    std::string text = prompt.is_string() ? prompt.get<std::string>() : prompt.dump();
    // Without the closing bracket, the ids of a prompt are a prefix of those of the next one.
    if (!prompt.is_string() && text.ends_with(']')) text.back() = ',';
    return text.size() < kLeastText ? std::string() : text;
  }
  std::string text;
  if (messages->is_array())
    for (const ordered_json& message : *messages) text += message.dump() + "\n";
  return text;
}

bool is_one_text(const ordered_json& fields) {
  const auto n = fields.find("n");
  if (n != fields.end() && !n->is_null() && *n != 1) return false;
  const auto prompt = fields.find("prompt");
  // A list of texts or of lists has several prompts.
  return prompt == fields.end() || !prompt->is_array() || prompt->empty() ||
         prompt->front().is_number();
}

void reduce_max_tokens(ordered_json& fields, int64_t tokens) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const auto found = fields.find(name);
    if (found != fields.end() && found->is_number_integer())
      *found = std::max<int64_t>(found->get<int64_t>() - tokens, 1);
  }
}

}  // namespace

Result<RouteRequest> parse_route_request(std::string path, std::string body) {
  RouteRequest request{.path = std::move(path), .body = std::move(body)};
  request.fields = ordered_json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  const ordered_json& fields = request.fields;
  if (!fields.is_object())
    return fail("serve.syntax", "the body is not a JSON object",
                "send an object of the OpenAI API");
  if (!fields.contains("prompt") && !fields.contains("messages"))
    return fail("serve.missing_field", "the request has neither prompt nor messages",
                "add the field of the endpoint");
  request.session.key = text_of(fields, "prompt_cache_key");
  if (request.session.key.empty()) request.session.key = text_of(fields, "user");
  request.session.text = session_text(fields);
  if (const auto metadata = fields.find("metadata");
      metadata != fields.end() && metadata->is_object())
    request.category = text_of(*metadata, "category");
  request.stream = is_given(fields, "stream");
  request.one_text = is_one_text(fields);
  request.by_tokens = is_given(fields, "tools") || is_given(fields, "logprobs");
  return request;
}

std::optional<std::string> resumed_body(const RouteRequest& request, const TextSoFar& so_far,
                                        NodeApi api) {
  if (so_far.empty()) return request.body;
  if (!request.one_text) return std::nullopt;
  ordered_json fields = request.fields;
  if (api == NodeApi::moec && !so_far.tokens.empty()) {
    fields["resume"] = {{"token_ids", so_far.tokens},
                        {"text_bytes", so_far.text.size()},
                        {"tool_calls", so_far.calls}};
    return json_text(fields, -1);
  }
  if (request.by_tokens) return std::nullopt;
  // Such servers send one token per event.
  reduce_max_tokens(fields, so_far.events);
  if (request.is_chat() && fields["messages"].is_array())
    fields["messages"].push_back({{"role", "assistant"}, {"content", so_far.text}});
  else if (fields.contains("prompt") && fields["prompt"].is_string())
    fields["prompt"] = text_of(fields, "prompt") + so_far.text;
  else
    return std::nullopt;
  return json_text(fields, -1);
}

}  // namespace moec
