#include "frontends/jobs/serve/answer_completion.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "ir/base/json_output.h"

namespace moec {
namespace {

using std::chrono::milliseconds;
// How long a client that has left may go unnoticed.
constexpr milliseconds kMoment{100};

std::string event(const nlohmann::ordered_json& json) {
  return "data: " + json_text(json, -1) + "\n\n";
}

}  // namespace

Answer::Answer(ReplyHead head, CompletionRequest request, std::shared_ptr<Ticket> ticket,
               const Manifest& manifest)
    : head_(std::move(head)),
      request_(std::move(request)),
      ticket_(std::move(ticket)),
      text_(manifest, request_.stop) {}

Answer::~Answer() { ticket_->cancel(); }

Result<Piece> Answer::next_piece() {
  Ticket::News news = ticket_->wait(kMoment);
  if (news.error) return fail(std::move(*news.error));
  Piece piece;
  for (const int64_t token : news.tokens) {
    if (text_.stopped()) break;
    piece.text += text_.add(token);
    piece.tokens.push_back(token);
  }
  written_ += std::ssize(piece.tokens);
  if (text_.stopped())
    piece.finish_reason = "stop";
  else if (news.stopped_by)
    piece.finish_reason = finish_reason(*news.stopped_by);
  if (!piece.finish_reason.empty()) piece.text += text_.rest();
  return piece;
}

Usage Answer::usage() const { return {std::ssize(request_.prompt), ticket_->reused(), written_}; }

Result<std::optional<std::string>> Answer::whole(const std::function<bool()>& gone) {
  Piece all;
  while (all.finish_reason.empty()) {
    MOEC_ASSIGN(Piece piece, next_piece());
    all.text += piece.text;
    all.tokens.insert(all.tokens.end(), piece.tokens.begin(), piece.tokens.end());
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
