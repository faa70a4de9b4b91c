// Answers one completion request through the scheduler, as a whole or as a stream.
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
#include "frontends/jobs/serve/tool_calls.h"

namespace moec {

// Fields common to all replies of one request, in the format of the OpenAI API.
struct ReplyHead {
  Endpoint endpoint = Endpoint::text;
  std::string id;
  std::string model;
  int64_t created = 0;  // seconds since 1970
};

struct Usage {
  int64_t prompt = 0, reused = 0, written = 0;  // tokens; `prompt` includes `reused`
};

// A piece of one text: the whole text, or the next part of a stream.
struct Piece {
  int64_t index = 0;  // index of the text in the request
  std::string text;
  std::vector<int64_t> tokens;
  std::optional<std::vector<TextLogprobs>> logprobs;  // of the tokens; none: not requested
  std::vector<ToolCall> calls;                        // calls that end in this piece
  int64_t calls_before = 0;                           // calls in earlier pieces of the text
  // "stop", "length", "tool_calls"; empty: the text continues.
  std::string finish_reason;
};

// Returns "length" if max_tokens or the context ended the text, and "stop" otherwise.
std::string finish_reason(StoppedBy stopped_by);

nlohmann::ordered_json whole_reply(const ReplyHead& head, const std::vector<Piece>& pieces,
                                   const Usage& usage);
// `first` is true for the first piece of a text, which names the role in a chat.
nlohmann::ordered_json stream_reply(const ReplyHead& head, const Piece& piece, bool first);
// The last event of a stream, if the request has with_usage.
nlohmann::ordered_json usage_reply(const ReplyHead& head, const Usage& usage);

// One text of an answer while it is generated.
class Choice {
 public:
  // `request` and `tokenizer` must outlive the object. `prompt` is one of the request's prompts.
  Choice(int64_t index, const CompletionRequest& request, const std::vector<int64_t>& prompt,
         std::shared_ptr<Ticket> ticket, const Tokenizer* tokenizer);

  // Waits at most `most` for tokens. Returns an empty piece if no token arrives.
  Result<Piece> next(std::chrono::milliseconds most);
  void cancel() { ticket_->cancel(); }
  bool over() const { return over_; }
  int64_t written() const { return written_; }  // tokens
  int64_t reused() const { return ticket_->reused(); }

 private:
  Status replay_resumed();
  Status add_tokens(Ticket::News news, Piece& piece);
  void take_calls(Piece& piece);
  void add_unsent(Piece& piece);

  int64_t index_;
  bool with_logprobs_;
  std::shared_ptr<Ticket> ticket_;
  TextStream text_;
  std::optional<ToolCallReader> calls_;  // if the request has tools
  int64_t called_ = 0;                   // calls that the client has
  LogprobNames names_;
  std::optional<ResumedText> resumed_;  // until it is replayed
  Piece unsent_;  // text and calls of the resumed tokens that the client lacks
  int64_t written_ = 0;
  bool over_ = false;
};

// A request while its texts are generated.
class Answer {
 public:
  // One ticket per text: first the request.texts tickets of the first prompt, then the next
  // prompt's.
  Answer(ReplyHead head, CompletionRequest request, std::vector<std::shared_ptr<Ticket>> tickets,
         const Tokenizer* tokenizer);
  // Cancels texts that are not complete.
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Returns the reply as JSON, or nothing if `gone` returns true (the client disconnected).
  Result<std::optional<std::string>> whole(const std::function<bool()>& gone);
  // Waits for the next pieces and calls send(text) for each event; stops if it returns false.
  // Returns true if the stream has more events: call it again.
  bool next_events(const std::function<bool(const std::string&)>& send);

 private:
  Usage usage() const;
  bool send_piece(const Piece& piece, const std::function<bool(const std::string&)>& send);
  bool send_end(const std::function<bool(const std::string&)>& send);

  ReplyHead head_;
  CompletionRequest request_;
  std::vector<Choice> choices_;
  std::vector<bool> begun_;  // per choice: its first piece was sent
};

}  // namespace moec
