// What the server answers, as the OpenAI API words it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backends/runtime/text/generate.h"
#include "frontends/jobs/serve/completion_request.h"

namespace moec {

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
  std::string text;
  std::vector<int64_t> tokens;
  std::string finish_reason;  // "stop", "length"; empty: the text goes on
};

// "length" where the text was cut by max_tokens or by the context.
std::string finish_reason(StoppedBy stopped_by);

nlohmann::ordered_json whole_reply(const ReplyHead& head, const Piece& piece, const Usage& usage);
// `first`: of a chat, says whose message begins.
nlohmann::ordered_json stream_reply(const ReplyHead& head, const Piece& piece, bool first);
// The last one of a stream, where it was asked for.
nlohmann::ordered_json usage_reply(const ReplyHead& head, const Usage& usage);

// {"error": {"message", "type", "param", "code"}}; `code` is that of the first diagnostic.
nlohmann::ordered_json error_reply(const Diagnostics& errors);
// The HTTP status: 400 for what the client can mend, 429 for serve.busy, 503 for serve.stopping,
// 500 for all else.
int http_status(const Diagnostics& errors);

}  // namespace moec
