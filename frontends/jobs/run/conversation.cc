#include "frontends/jobs/run/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "ir/base/report_json.h"

namespace moec {

using nlohmann::ordered_json;

Conversation::Conversation(Session& session, const Tokenizer& tokenizer, const ChatTemplate& chat,
                           const WriteOptions& options)
    : session_(session), tokenizer_(tokenizer), chat_(chat), options_(options) {
  if (!options_.ignore_eos) options_.generate.eos_tokens = session.manifest().model.eos_tokens;
}

// Returns the request in the format that ChatTemplate::render() expects.
std::string Conversation::request() const {
  auto messages = ordered_json::array();
  for (const auto& [role, content] : messages_)
    messages.push_back({{"role", role}, {"content", content}});
  return json_text({{"messages", std::move(messages)}}, -1);
}

// Rewinds the session to the common prefix of its cache and the prompt, and returns the length of
// the prefix. The last prompt token always runs again, because its logits are needed.
size_t Conversation::keep_common(const std::vector<int64_t>& prompt) {
  // The prompt is not empty, which answer() has checked; end() - 1 excludes its last token.
  const auto [here, there] =
      std::mismatch(prompt.begin(), prompt.end() - 1, cached_.begin(), cached_.end());
  const auto common = here - prompt.begin();
  if (session_.rewind(common)) return static_cast<size_t>(common);
  // Starts over if a cache cannot restore an earlier state.
  session_.reset();
  return 0;
}

Result<GeneratedText> Conversation::answer(std::string_view message,
                                           const std::function<void(const std::string&)>& on_text) {
  messages_.push_back({"user", std::string(message)});
  MOEC_ASSIGN(const std::string text, chat_.render(request()));
  // The template writes special tokens itself, so encoding must not add any.
  MOEC_ASSIGN(prompt_, tokenizer_.encode(text, SpecialTokens::leave_out));
  if (prompt_.empty())
    return fail("run.no_prompt", "the chat template returned an empty text",
                "send another message");
  // Refuses a long prompt before the session's caches are changed.
  MOEC_TRY(check_prompt_length(prompt_, session_.manifest()));
  const size_t kept = keep_common(prompt_);
  // A token may end inside a character, so a decoder keeps incomplete bytes.
  TextDecoder decoder(&tokenizer_);
  std::string said;
  Status decoded;
  const auto give = [&](const Result<std::string>& piece) {
    if (!piece) decoded = fail(piece.error());
    // After an error, later pieces are dropped, because generate_text() cannot be stopped here.
    if (!piece || !decoded) return;
    said += *piece;
    on_text(*piece);
  };
  const auto rest = std::span(prompt_).subspan(kept);
  MOEC_ASSIGN(GeneratedText written,
              generate_text(session_, rest, options_.generate,
                            [&](int64_t token) { give(decoder.add(token)); }));
  give(decoder.finish());
  MOEC_TRY(decoded);
  messages_.push_back({"assistant", said});
  cached_ = prompt_;
  cached_.insert(cached_.end(), written.tokens.begin(), written.tokens.end());
  // Tokens that were not run yet, such as the last one, are not in the caches.
  cached_.resize(static_cast<size_t>(session_.position()));
  return written;
}

}  // namespace moec
