// Writes text with an export: feeds the prompt, samples a token, feeds it back, and so on.
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
  // These end the text when they are sampled, and are not part of it.
  std::optional<int64_t> stop_token;
  std::vector<int64_t> eos_tokens;  // of the manifest
  SamplerOptions sampler;
  // If set, keep the log probability of each token and of this number of the likeliest ones.
  std::optional<int64_t> top_logprobs;
};

// What stopped a text: max_tokens were written, the stop token or an end of text was sampled, or
// the cache is full.
enum class StoppedBy : uint8_t { max_tokens, stop_token, eos_token, context };
constexpr auto enum_names(StoppedBy) {
  return name_table<StoppedBy>({"max_tokens", "stop_token", "eos_token", "context"});
}

struct GeneratedText {
  std::vector<int64_t> tokens;          // without the prompt
  std::vector<TokenLogprobs> logprobs;  // of each token; empty unless asked for
  StoppedBy stopped_by = StoppedBy::max_tokens;
  std::optional<int64_t> stopping_token;  // that was sampled and is not part of the text
  double prefill_seconds = 0;             // until the logits behind the prompt were known
  double decode_seconds = 0;              // all steps after that
  // 0 where fewer than two tokens were written.
  double decode_tokens_per_second() const;
};

// Told each token of the text as soon as it is sampled.
using TokenCallback = std::function<void(int64_t token)>;

// Writes a text step by step, so that a program can do other things between the steps.
class TextWriter {
 public:
  // `rest` is what of the prompt is not yet in the session's sequence, at least one token; the
  // others are `reused`.
  TextWriter(std::vector<int64_t> rest, int64_t reused, const Manifest& manifest,
             const GenerateOptions& options);
  // Feeds a chunk of what is left of the prompt, or the latest token. Returns the next token of the
  // text, nothing where none is known yet or the text has ended. Errors: those of Session::feed().
  Result<std::optional<int64_t>> step(Session& session);
  bool done() const { return done_; }
  const GeneratedText& text() const { return text_; }

 private:
  std::optional<int64_t> take(const Rows& logits);

  GenerateOptions options_;
  Sampler sampler_;
  std::vector<int64_t> feed_;
  int64_t most_ = 0;  // tokens
  bool done_ = false;
  GeneratedText text_;
};

// Fails with session.context_full if the prompt is longer than the exported context. A prompt that
// fills it gets one more token, which is sampled but never fed.
Status check_prompt_length(std::span<const int64_t> prompt, const Manifest& manifest);

// Continues the session's sequence with the prompt and what is sampled after it. The prompt is not
// empty. Errors: those of check_prompt_length() and of Session::feed().
Result<GeneratedText> generate_text(Session& session, std::span<const int64_t> prompt,
                                    const GenerateOptions& options,
                                    const TokenCallback& on_token = {});

}  // namespace moec
