#include "frontends/jobs/serve/replies.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace moec {
namespace {

using nlohmann::ordered_json;

ordered_json reason_json(const Piece& piece) {
  return piece.finish_reason.empty() ? ordered_json() : ordered_json(piece.finish_reason);
}

ordered_json head_json(const ReplyHead& head, const std::string& object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

std::string object_name(const ReplyHead& head, bool stream) {
  if (head.endpoint == Endpoint::text) return "text_completion";
  return stream ? "chat.completion.chunk" : "chat.completion";
}

// `body` is how the endpoint words the text.
ordered_json choices_json(const Piece& piece, const std::string& key, const ordered_json& body) {
  ordered_json choice = {{"index", 0}};
  choice[key] = body;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = reason_json(piece);
  choice["token_ids"] = piece.tokens;
  return ordered_json::array({choice});
}

ordered_json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.written},
          {"total_tokens", usage.prompt + usage.written},
          {"prompt_tokens_details", {{"cached_tokens", usage.reused}}}};
}

std::string type_name(int status) {
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

std::string finish_reason(StoppedBy stopped_by) {
  const bool cut = stopped_by == StoppedBy::max_tokens || stopped_by == StoppedBy::context;
  return cut ? "length" : "stop";
}

ordered_json whole_reply(const ReplyHead& head, const Piece& piece, const Usage& usage) {
  ordered_json json = head_json(head, object_name(head, false));
  if (head.endpoint == Endpoint::text)
    json["choices"] = choices_json(piece, "text", piece.text);
  else
    json["choices"] =
        choices_json(piece, "message", {{"role", "assistant"}, {"content", piece.text}});
  json["usage"] = usage_json(usage);
  return json;
}

ordered_json stream_reply(const ReplyHead& head, const Piece& piece, bool first) {
  ordered_json json = head_json(head, object_name(head, true));
  if (head.endpoint == Endpoint::text) {
    json["choices"] = choices_json(piece, "text", piece.text);
    return json;
  }
  ordered_json delta = ordered_json::object();
  if (first) delta["role"] = "assistant";
  if (!piece.text.empty() || first) delta["content"] = piece.text;
  json["choices"] = choices_json(piece, "delta", delta);
  return json;
}

ordered_json usage_reply(const ReplyHead& head, const Usage& usage) {
  ordered_json json = head_json(head, object_name(head, true));
  json["choices"] = ordered_json::array();
  json["usage"] = usage_json(usage);
  return json;
}

ordered_json error_reply(const Diagnostics& errors) {
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
  if (code == "serve.busy") return 429;
  if (code == "serve.stopping") return 503;
  constexpr std::array kOfClient = {"serve.", "run.", "session.context_full", "session.token"};
  const auto begins = [&](const char* prefix) { return code.starts_with(prefix); };
  return std::any_of(kOfClient.begin(), kOfClient.end(), begins) ? 400 : 500;
}

}  // namespace moec
