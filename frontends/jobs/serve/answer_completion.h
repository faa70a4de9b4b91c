// Answers one request for a completion: through the scheduler, whole or piece by piece.
#pragma once

#include <functional>
#include <string>

#include "frontends/jobs/serve/replies.h"
#include "frontends/jobs/serve/scheduler.h"
#include "frontends/jobs/serve/text_stream.h"

namespace moec {

// A request whose text is being written.
class Answer {
 public:
  Answer(ReplyHead head, CompletionRequest request, std::shared_ptr<Ticket> ticket,
         const Manifest& manifest);
  // The client is gone, or the answer is given up, before the text is over: the text ends.
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // The reply as JSON; nothing where `gone` says that the client has left.
  Result<std::optional<std::string>> whole(const std::function<bool()>& gone);
  // Calls send(text) for each event of the stream, up to the last one, until it says false. Returns
  // whether there is more: call again.
  bool next_events(const std::function<bool(const std::string&)>& send);

 private:
  // Waits a moment; the piece is empty where nothing new came.
  Result<Piece> next_piece();
  Usage usage() const;
  bool send_end(const std::function<bool(const std::string&)>& send);

  ReplyHead head_;
  CompletionRequest request_;
  std::shared_ptr<Ticket> ticket_;
  TextStream text_;
  int64_t written_ = 0;  // tokens
  bool first_ = true;
};

}  // namespace moec
