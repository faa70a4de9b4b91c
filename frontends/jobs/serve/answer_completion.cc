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
ordered_json choice_json(const ReplyHead& head, const Piece& piece, const std::string& key,
                         const ordered_json& body) {
  ordered_json choice = {{"index", piece.index}};
  choice[key] = body;
  choice["logprobs"] = logprobs_json(head.endpoint, piece);
  choice["finish_reason"] = reason_json(piece);
  choice["token_ids"] = piece.tokens;
  return choice;
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

ordered_json whole_reply(const ReplyHead& head, const std::vector<Piece>& pieces,
                         const Usage& usage) {
  ordered_json json = head_json(head, object_name(head, false));
  json["choices"] = ordered_json::array();
  for (const Piece& piece : pieces)
    json["choices"].push_back(head.endpoint == Endpoint::text
                                  ? choice_json(head, piece, "text", piece.text)
                                  : choice_json(head, piece, "message",
                                                {{"role", "assistant"}, {"content", piece.text}}));
  json["usage"] = usage_json(usage);
  return json;
}

ordered_json stream_reply(const ReplyHead& head, const Piece& piece, bool first) {
  ordered_json json = head_json(head, object_name(head, true));
  if (head.endpoint == Endpoint::text) {
    json["choices"] = {choice_json(head, piece, "text", piece.text)};
    return json;
  }
  ordered_json delta = ordered_json::object();
  if (first) delta["role"] = "assistant";
  if (!piece.text.empty() || first) delta["content"] = piece.text;
  json["choices"] = {choice_json(head, piece, "delta", delta)};
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

Choice::Choice(int64_t index, const CompletionRequest& request, const std::vector<int64_t>& prompt,
               std::shared_ptr<Ticket> ticket, const Tokenizer* tokenizer)
    : index_(index),
      with_logprobs_(request.generate.top_logprobs.has_value()),
      ticket_(std::move(ticket)),
      text_(tokenizer, request.stop),
      names_(tokenizer, prompt.back()) {}

Status Choice::add_tokens(Ticket::News news, Piece& piece) {
  if (with_logprobs_) piece.logprobs.emplace();
  for (size_t i = 0; i < news.tokens.size() && !text_.stopped(); ++i) {
    MOEC_ASSIGN(const std::string text, text_.add(news.tokens[i]));
    piece.text += text;
    piece.tokens.push_back(news.tokens[i]);
    if (!with_logprobs_) continue;
    MOEC_ASSIGN(TextLogprobs logprobs, names_.add(news.logprobs[i]));
    piece.logprobs->push_back(std::move(logprobs));
  }
  written_ += std::ssize(piece.tokens);
  return {};
}

Result<Piece> Choice::next(milliseconds most) {
  Ticket::News news = ticket_->wait(most);
  if (news.error) return fail(std::move(*news.error));
  const std::optional<StoppedBy> stopped_by = news.stopped_by;
  Piece piece;
  piece.index = index_;
  MOEC_TRY(add_tokens(std::move(news), piece));
  if (text_.stopped())
    piece.finish_reason = "stop";
  else if (stopped_by)
    piece.finish_reason = finish_reason(*stopped_by);
  over_ = !piece.finish_reason.empty();
  if (over_) {
    MOEC_ASSIGN(const std::string rest, text_.rest());
    piece.text += rest;
  }
  return piece;
}

Answer::Answer(ReplyHead head, CompletionRequest request,
               std::vector<std::shared_ptr<Ticket>> tickets, const Tokenizer* tokenizer)
    : head_(std::move(head)), request_(std::move(request)), begun_(tickets.size()) {
  for (size_t i = 0; i < tickets.size(); ++i)
    choices_.emplace_back(static_cast<int64_t>(i), request_,
                          request_.prompts[i / static_cast<size_t>(request_.texts)],
                          std::move(tickets[i]), tokenizer);
}

Answer::~Answer() {
  for (Choice& choice : choices_) choice.cancel();
}

// A prompt counts once, however many texts go on from it.
Usage Answer::usage() const {
  Usage usage;
  for (const auto& prompt : request_.prompts) usage.prompt += std::ssize(prompt);
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.written += choices_[i].written();
    if (i % static_cast<size_t>(request_.texts) == 0) usage.reused += choices_[i].reused();
  }
  return usage;
}

static void append(Piece piece, Piece& all) {
  all.index = piece.index;
  all.text += piece.text;
  all.tokens.insert(all.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  all.finish_reason = piece.finish_reason;
  if (!piece.logprobs) return;
  if (!all.logprobs) all.logprobs.emplace();
  std::move(piece.logprobs->begin(), piece.logprobs->end(), std::back_inserter(*all.logprobs));
}

Result<std::optional<std::string>> Answer::whole(const std::function<bool()>& gone) {
  std::vector<Piece> pieces(choices_.size());
  for (size_t i = 0; i < choices_.size(); ++i)
    while (!choices_[i].over()) {
      MOEC_ASSIGN(Piece piece, choices_[i].next(kMoment));
      append(std::move(piece), pieces[i]);
      if (!choices_[i].over() && gone()) return std::nullopt;
    }
  return json_text(whole_reply(head_, pieces, usage()), -1);
}

bool Answer::send_end(const std::function<bool(const std::string&)>& send) {
  if (request_.with_usage) send(event(usage_reply(head_, usage())));
  send("data: [DONE]\n\n");
  return false;
}

// Nothing is sent of an empty piece but a look whether the client is there.
bool Answer::send_piece(const Piece& piece, const std::function<bool(const std::string&)>& send) {
  if (piece.tokens.empty() && piece.finish_reason.empty()) return send("");
  const auto index = static_cast<size_t>(piece.index);
  const bool first = !begun_[index];
  begun_[index] = true;
  return send(event(stream_reply(head_, piece, first)));
}

bool Answer::next_events(const std::function<bool(const std::string&)>& send) {
  for (Choice& choice : choices_) {
    if (choice.over()) continue;
    const Result<Piece> piece = choice.next(kMoment / std::ssize(choices_));
    if (!piece) {
      send(event(error_reply(piece.error())));
      return false;
    }
    if (!send_piece(*piece, send)) return false;
  }
  const bool more = std::any_of(choices_.begin(), choices_.end(),
                                [](const Choice& choice) { return !choice.over(); });
  return more || send_end(send);
}

}  // namespace moec
