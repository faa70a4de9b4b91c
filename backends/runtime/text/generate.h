// Generates text with an export: feeds the prompt, then samples tokens and feeds them back one at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backends/runtime/session/session.h"
#include "backends/runtime/text/logprobs.h"
#include "backends/runtime/text/sampler.h"
#include "ir/base/enum_table.h"

namespace moec {

struct GenerateOptions {
  int64_t max_tokens = 64;
  // Tokens that end the text when they are sampled. They are not part of the text.
  std::optional<int64_t> stop_token;
  std::vector<int64_t> eos_tokens;  // from the manifest
  SamplerOptions sampler;
  // If set, records the log probability of each token and of this number of likeliest tokens.
  std::optional<int64_t> top_logprobs;
};

// Reason why the text ended: `max_tokens` tokens were generated, the stop token or an end-of-text
// token was sampled, or the context is full.
enum class StoppedBy : uint8_t { max_tokens, stop_token, eos_token, context };
constexpr auto enum_names(StoppedBy) {
  return name_table<StoppedBy>({"max_tokens", "stop_token", "eos_token", "context"});
}

struct GeneratedText {
  std::vector<int64_t> tokens;          // without the prompt
  std::vector<TokenLogprobs> logprobs;  // per token; empty unless requested
  StoppedBy stopped_by = StoppedBy::max_tokens;
  std::optional<int64_t> stopping_token;  // sampled last; not part of the text
  double prefill_seconds = 0;             // time until the logits of the last prompt token
  double decode_seconds = 0;              // time of all later steps
  // Tokens after the first one per second of decoding; 0 if fewer than two were generated.
  double decode_tokens_per_second() const;
};

// Called with each token of the text as soon as the token is sampled.
using TokenCallback = std::function<void(int64_t token)>;

// Generates a text step by step. The caller can do other work between steps.
class TextWriter {
 public:
  // `rest`: the tokens of the prompt that are not yet in the session's sequence, at least one.
  // `reused`: the number of prompt tokens that already are.
  TextWriter(std::vector<int64_t> rest, int64_t reused, const Manifest& manifest,
             const GenerateOptions& options);
  // Feeds a chunk of the remaining prompt, or the latest token. Returns the next token of the text;
  // absent while the prompt is incomplete and after the end of the text. Errors: those of
  // Session::feed(); text.undefined_logits (a logit is NaN).
  Result<std::optional<int64_t>> step(Session& session);
  bool done() const { return done_; }
  const GeneratedText& text() const { return text_; }

 private:
  Result<std::optional<int64_t>> take(const Rows& logits);

  GenerateOptions options_;
  Sampler sampler_;
  std::vector<int64_t> feed_;
  int64_t most_ = 0;  // maximum number of tokens
  bool done_ = false;
  GeneratedText text_;
};

// Fails with session.context_full if the prompt is longer than the exported context. After a prompt
// that fills the context, one token can still be sampled, because the last token is never fed.
Status check_prompt_length(std::span<const int64_t> prompt, const Manifest& manifest);

// Appends the prompt and the tokens sampled after it to the session's sequence. The prompt must not
// be empty. Errors: those of check_prompt_length() and of TextWriter::step().
Result<GeneratedText> generate_text(Session& session, std::span<const int64_t> prompt,
                                    const GenerateOptions& options,
                                    const TokenCallback& on_token = {});

}  // namespace moec
