// Answers one request for a completion: through the scheduler, whole or piece by piece.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/text/generate.h"
#include "frontends/jobs/serve/completion_request.h"
#include "frontends/jobs/serve/logprobs_json.h"
#include "frontends/jobs/serve/scheduler.h"
#include "frontends/jobs/serve/text_stream.h"

namespace moec {

// What the server answers, as the OpenAI API words it.

// Of one request.
struct ReplyHead {
  Endpoint endpoint = Endpoint::text;
  std::string id;
  std::string model;
  int64_t created = 0;  // seconds since 1970
};

struct Usage {
  int64_t prompt = 0, reused = 0, written = 0;  // tokens; those reused are part of the prompt
};

// What is said at once of a text: all of it, or the next piece of a stream.
struct Piece {
  int64_t index = 0;  // of the text among those of the request
  std::string text;
  std::vector<int64_t> tokens;
  std::optional<std::vector<TextLogprobs>> logprobs;  // of the tokens; none: not asked for
  std::string finish_reason;                          // "stop", "length"; empty: the text goes on
};

// "length" where the text was cut by max_tokens or by the context.
std::string finish_reason(StoppedBy stopped_by);

nlohmann::ordered_json whole_reply(const ReplyHead& head, const std::vector<Piece>& pieces,
                                   const Usage& usage);
// `first`: of a chat, says whose message begins.
nlohmann::ordered_json stream_reply(const ReplyHead& head, const Piece& piece, bool first);
// The last one of a stream, where it was asked for.
nlohmann::ordered_json usage_reply(const ReplyHead& head, const Usage& usage);

// {"error": {"message", "type", "param", "code"}}; `code` is that of the first diagnostic.
nlohmann::ordered_json error_reply(const Diagnostics& errors);
// The HTTP status: 400 for what the client can mend, 429 for serve.busy, 503 for serve.stopping,
// 500 for all else.
int http_status(const Diagnostics& errors);

// One text of an answer, as it is written.
class Choice {
 public:
  // `request` and `tokenizer` must outlive the object; `prompt` is one of the request's.
  Choice(int64_t index, const CompletionRequest& request, const std::vector<int64_t>& prompt,
         std::shared_ptr<Ticket> ticket, const Tokenizer* tokenizer);

  // Waits up to `most` for tokens. The piece is empty if none came.
  Result<Piece> next(std::chrono::milliseconds most);
  void cancel() { ticket_->cancel(); }
  bool over() const { return over_; }
  int64_t written() const { return written_; }  // tokens
  int64_t reused() const { return ticket_->reused(); }

 private:
  Status add_tokens(Ticket::News news, Piece& piece);

  int64_t index_;
  bool with_logprobs_;
  std::shared_ptr<Ticket> ticket_;
  TextStream text_;
  LogprobNames names_;
  int64_t written_ = 0;
  bool over_ = false;
};

// A request whose texts are being written.
class Answer {
 public:
  // A ticket for each text: request.texts of the first prompt, then of the next one.
  Answer(ReplyHead head, CompletionRequest request, std::vector<std::shared_ptr<Ticket>> tickets,
         const Tokenizer* tokenizer);
  // The client is gone, or the answer is given up, before the texts are over: they end.
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // The reply as JSON; nothing if `gone` says that the client has left.
  Result<std::optional<std::string>> whole(const std::function<bool()>& gone);
  // Calls send(text) for each event of the stream, up to the last one, until it says false. Returns
  // whether there is more: call again.
  bool next_events(const std::function<bool(const std::string&)>& send);

 private:
  Usage usage() const;
  bool send_piece(const Piece& piece, const std::function<bool(const std::string&)>& send);
  bool send_end(const std::function<bool(const std::string&)>& send);

  ReplyHead head_;
  CompletionRequest request_;
  std::vector<Choice> choices_;
  std::vector<bool> begun_;  // of each choice: its first piece was sent
};

}  // namespace moec
