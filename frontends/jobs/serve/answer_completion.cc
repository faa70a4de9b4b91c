#include "frontends/jobs/serve/answer_completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "frontends/http/error_reply.h"
#include "ir/base/at.h"
#include "ir/base/report_json.h"

namespace moec {

namespace {

using nlohmann::ordered_json;

ordered_json reason_json(const Piece& piece) {
  // The API requires null until the text ends.
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

// `key` and `body` are the field of the endpoint that contains the text.
ordered_json choice_json(const ReplyHead& head, const Piece& piece, const std::string& key,
                         const ordered_json& body) {
  ordered_json choice = {{"index", piece.index}};
  choice[key] = body;
  choice["logprobs"] = logprobs_json(head.endpoint, piece);
  choice["finish_reason"] = reason_json(piece);
  choice["token_ids"] = piece.tokens;
  return choice;
}

std::string call_id() {
  // 96 random bits: clients use the id to match results with calls.
  std::random_device device;
  return fmt::format("call_{:08x}{:08x}{:08x}", device(), device(), device());
}

// `indexed` adds the index of each call, which the API requires in streams.
ordered_json calls_json(const Piece& piece, bool indexed) {
  auto calls = ordered_json::array();
  for (size_t i = 0; i < piece.calls.size(); ++i) {
    ordered_json call = ordered_json::object();
    // The index counts over the whole text, because the calls of a stream arrive in several pieces.
    if (indexed) call["index"] = piece.calls_before + static_cast<int64_t>(i);
    call["id"] = call_id();
    call["type"] = "function";
    call["function"] = {{"name", piece.calls[i].name}, {"arguments", piece.calls[i].arguments}};
    calls.push_back(std::move(call));
  }
  return calls;
}

ordered_json message_json(const Piece& piece) {
  ordered_json message = {{"role", "assistant"}, {"content", piece.text}};
  if (piece.calls.empty()) return message;
  // The API has null content for a message of calls only.
  if (piece.text.empty()) message["content"] = nullptr;
  message["tool_calls"] = calls_json(piece, false);
  return message;
}

ordered_json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.written},
          {"total_tokens", usage.prompt + usage.written},
          {"prompt_tokens_details", {{"cached_tokens", usage.reused}}}};
}

}  // namespace

std::string finish_reason(StoppedBy stopped_by) {
  // "length" means that a limit cut the text.
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
                                  : choice_json(head, piece, "message", message_json(piece)));
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
  // The first chunk has content even if it is empty, as in the OpenAI API.
  if (!piece.text.empty() || first) delta["content"] = piece.text;
  if (!piece.calls.empty()) delta["tool_calls"] = calls_json(piece, true);
  json["choices"] = {choice_json(head, piece, "delta", delta)};
  return json;
}

ordered_json usage_reply(const ReplyHead& head, const Usage& usage) {
  ordered_json json = head_json(head, object_name(head, true));
  // The API sends usage in an event without choices.
  json["choices"] = ordered_json::array();
  json["usage"] = usage_json(usage);
  return json;
}

namespace {

using std::chrono::milliseconds;
// Interval between checks for a disconnected client.
constexpr milliseconds kMoment{100};

std::string event(const nlohmann::ordered_json& json) {
  return "data: " + json_text(json, -1) + "\n\n";
}

}  // namespace

// The last token of the prompt, without a resumed text.
static int64_t last_of_prompt(const CompletionRequest& request,
                              const std::vector<int64_t>& prompt) {
  const int64_t resumed = request.resumed ? std::ssize(request.resumed->tokens) : 0;
  return at(prompt, std::ssize(prompt) - 1 - resumed);
}

// `names_` begins with the last prompt token, because each token is decoded after its predecessor.
Choice::Choice(int64_t index, const CompletionRequest& request, const std::vector<int64_t>& prompt,
               std::shared_ptr<Ticket> ticket, const Tokenizer* tokenizer)
    : index_(index),
      with_logprobs_(request.generate.top_logprobs.has_value()),
      ticket_(std::move(ticket)),
      text_(tokenizer, request.stop),
      names_(tokenizer, last_of_prompt(request, prompt)),
      resumed_(request.resumed) {
  if (request.with_tools) calls_.emplace();
}

// Decodes the resumed tokens, so that characters, stop texts and calls may span the interruption.
Status Choice::replay_resumed() {
  if (!resumed_) return {};
  for (const int64_t token : resumed_->tokens) {
    MOEC_ASSIGN(const std::string text, text_.add(token));
    unsent_.text += text;
    if (with_logprobs_) MOEC_TRY(names_.add({.chosen = {.token = token}}));
  }
  if (calls_) take_calls(unsent_);
  const auto require = [](const char* field, int64_t given, int64_t own) -> Status {
    if (given <= own) return {};
    return fail("serve.bad_value",
                fmt::format("{} of resume is {}, but the tokens have {}", field, given, own));
  };
  MOEC_TRY(require("text_bytes", resumed_->bytes, std::ssize(unsent_.text)));
  MOEC_TRY(require("tool_calls", resumed_->calls, std::ssize(unsent_.calls)));
  unsent_.text.erase(0, static_cast<size_t>(resumed_->bytes));
  unsent_.calls.erase(unsent_.calls.begin(), unsent_.calls.begin() + resumed_->calls);
  called_ = resumed_->calls;
  resumed_.reset();
  return {};
}

void Choice::add_unsent(Piece& piece) {
  piece.text.insert(0, std::exchange(unsent_.text, {}));
  piece.calls.insert(piece.calls.begin(), std::move_iterator(unsent_.calls.begin()),
                     std::move_iterator(unsent_.calls.end()));
  unsent_.calls.clear();
}

Status Choice::add_tokens(Ticket::News news, Piece& piece) {
  if (with_logprobs_) piece.logprobs.emplace();
  // Tokens after a stop text are dropped, although the scheduler has generated them.
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
  MOEC_TRY(replay_resumed());
  Piece piece;
  piece.index = index_;
  MOEC_TRY(add_tokens(std::move(news), piece));
  // The stop text ends the text even if the scheduler still generates tokens.
  if (text_.stopped())
    piece.finish_reason = "stop";
  else if (stopped_by)
    piece.finish_reason = finish_reason(*stopped_by);
  over_ = !piece.finish_reason.empty();
  if (over_) {
    // At the end, text that was held back as a possible beginning of a stop text is released.
    MOEC_ASSIGN(const std::string rest, text_.rest());
    piece.text += rest;
  }
  // Not earlier, because calls may lie in the rest that was released above.
  if (calls_) take_calls(piece);
  // A piece without tokens is not sent.
  if (over_ || !piece.tokens.empty()) add_unsent(piece);
  piece.calls_before = called_;
  called_ += std::ssize(piece.calls);
  return piece;
}

void Choice::take_calls(Piece& piece) {
  piece.text = calls_->add(piece.text);
  if (over_) piece.text += calls_->rest();
  piece.calls = calls_->take_calls();
  // Only a normal end becomes "tool_calls"; a text that was cut keeps "length".
  if (calls_->found_any() && piece.finish_reason == "stop") piece.finish_reason = "tool_calls";
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
  // Texts of a client that has left must not occupy sequences.
  for (Choice& choice : choices_) choice.cancel();
}

// Counts each prompt once, even with several texts per prompt.
Usage Answer::usage() const {
  Usage usage;
  for (const auto& prompt : request_.prompts) usage.prompt += std::ssize(prompt);
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.written += choices_[i].written();
    if (i % static_cast<size_t>(request_.texts) == 0) usage.reused += choices_[i].reused();
  }
  // As if one server had generated the whole text.
  if (request_.resumed) {
    usage.prompt -= std::ssize(request_.resumed->tokens);
    usage.written += std::ssize(request_.resumed->tokens);
  }
  return usage;
}

static void append(Piece piece, Piece& all) {
  all.index = piece.index;
  all.text += piece.text;
  all.tokens.insert(all.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  std::move(piece.calls.begin(), piece.calls.end(), std::back_inserter(all.calls));
  // The last piece has the reason; earlier pieces have an empty one.
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

// Sends nothing for an empty piece: send("") only checks that the client is still connected.
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
    // Divides the time among the texts, so that a slow text does not delay the others.
    const Result<Piece> piece = choice.next(kMoment / std::ssize(choices_));
    if (!piece) {
      send(event(error_reply(piece.error())));
      return false;
    }
    // send() is false if the client has left; then nothing more can be sent.
    if (!send_piece(*piece, send)) return false;
  }
  const bool more = std::any_of(choices_.begin(), choices_.end(),
                                [](const Choice& choice) { return !choice.over(); });
  return more || send_end(send);
}

}  // namespace moec
