#include "frontends/jobs/serve/answer_completion.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "ir/base/report_json.h"

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

ordered_json logprobs_json(Endpoint endpoint, const Piece& piece) {
  if (!piece.logprobs) return nullptr;
  return endpoint == Endpoint::chat ? chat_logprobs_json(*piece.logprobs)
                                    : text_logprobs_json(*piece.logprobs);
}

// `body` is how the endpoint words the text.
ordered_json choices_json(const ReplyHead& head, const Piece& piece, const std::string& key,
                          const ordered_json& body) {
  ordered_json choice = {{"index", 0}};
  choice[key] = body;
  choice["logprobs"] = logprobs_json(head.endpoint, piece);
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
    json["choices"] = choices_json(head, piece, "text", piece.text);
  else
    json["choices"] =
        choices_json(head, piece, "message", {{"role", "assistant"}, {"content", piece.text}});
  json["usage"] = usage_json(usage);
  return json;
}

ordered_json stream_reply(const ReplyHead& head, const Piece& piece, bool first) {
  ordered_json json = head_json(head, object_name(head, true));
  if (head.endpoint == Endpoint::text) {
    json["choices"] = choices_json(head, piece, "text", piece.text);
    return json;
  }
  ordered_json delta = ordered_json::object();
  if (first) delta["role"] = "assistant";
  if (!piece.text.empty() || first) delta["content"] = piece.text;
  json["choices"] = choices_json(head, piece, "delta", delta);
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
  if (code == "serve.too_large") return 413;
  constexpr std::array kOfClient = {"serve.", "run.", "session.context_full", "session.token",
                                    "tokenizer."};
  const auto begins = [&](const char* prefix) { return code.starts_with(prefix); };
  return std::any_of(kOfClient.begin(), kOfClient.end(), begins) ? 400 : 500;
}

namespace {

using std::chrono::milliseconds;
// How long a client that has left may go unnoticed.
constexpr milliseconds kMoment{100};

std::string event(const nlohmann::ordered_json& json) {
  return "data: " + json_text(json, -1) + "\n\n";
}

}  // namespace

Answer::Answer(ReplyHead head, CompletionRequest request, std::shared_ptr<Ticket> ticket,
               const Tokenizer* tokenizer)
    : head_(std::move(head)),
      request_(std::move(request)),
      ticket_(std::move(ticket)),
      text_(tokenizer, request_.stop),
      names_(tokenizer, request_.prompt.back()) {}

Answer::~Answer() { ticket_->cancel(); }

Result<Piece> Answer::next_piece() {
  Ticket::News news = ticket_->wait(kMoment);
  if (news.error) return fail(std::move(*news.error));
  Piece piece;
  if (request_.generate.top_logprobs) piece.logprobs.emplace();
  for (size_t i = 0; i < news.tokens.size() && !text_.stopped(); ++i) {
    MOEC_ASSIGN(const std::string text, text_.add(news.tokens[i]));
    piece.text += text;
    piece.tokens.push_back(news.tokens[i]);
    if (!piece.logprobs) continue;
    MOEC_ASSIGN(TextLogprobs logprobs, names_.add(news.logprobs[i]));
    piece.logprobs->push_back(std::move(logprobs));
  }
  written_ += std::ssize(piece.tokens);
  if (text_.stopped())
    piece.finish_reason = "stop";
  else if (news.stopped_by)
    piece.finish_reason = finish_reason(*news.stopped_by);
  if (!piece.finish_reason.empty()) {
    MOEC_ASSIGN(const std::string rest, text_.rest());
    piece.text += rest;
  }
  return piece;
}

Usage Answer::usage() const { return {std::ssize(request_.prompt), ticket_->reused(), written_}; }

Result<std::optional<std::string>> Answer::whole(const std::function<bool()>& gone) {
  Piece all;
  while (all.finish_reason.empty()) {
    MOEC_ASSIGN(Piece piece, next_piece());
    all.text += piece.text;
    all.tokens.insert(all.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    if (piece.logprobs) {
      if (!all.logprobs) all.logprobs.emplace();
      std::move(piece.logprobs->begin(), piece.logprobs->end(), std::back_inserter(*all.logprobs));
    }
    all.finish_reason = piece.finish_reason;
    if (all.finish_reason.empty() && gone()) return std::nullopt;
  }
  return json_text(whole_reply(head_, all, usage()), -1);
}

bool Answer::send_end(const std::function<bool(const std::string&)>& send) {
  if (request_.with_usage) send(event(usage_reply(head_, usage())));
  send("data: [DONE]\n\n");
  return false;
}

bool Answer::next_events(const std::function<bool(const std::string&)>& send) {
  const Result<Piece> piece = next_piece();
  if (!piece) {
    send(event(error_reply(piece.error())));
    return false;
  }
  if (piece->tokens.empty() && piece->finish_reason.empty()) return send("");
  if (!send(event(stream_reply(head_, *piece, std::exchange(first_, false))))) return false;
  return piece->finish_reason.empty() || send_end(send);
}

}  // namespace moec
