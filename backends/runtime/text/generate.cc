#include "backends/runtime/text/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/base/seconds_since.h"

namespace moec {
namespace {

// Returns the maximum number of tokens that can be sampled after `tokens` tokens. The last of them
// needs no cache row, because it is never fed.
int64_t room_behind(int64_t tokens, const Manifest& manifest) {
  return manifest.build.context - tokens + 1;
}

// Returns the reason if `token` ends the text.
std::optional<StoppedBy> stops(int64_t token, const GenerateOptions& options) {
  if (token == options.stop_token) return StoppedBy::stop_token;
  const auto& eos = options.eos_tokens;
  if (std::find(eos.begin(), eos.end(), token) != eos.end()) return StoppedBy::eos_token;
  return std::nullopt;
}

}  // namespace

double GeneratedText::decode_tokens_per_second() const {
  // The first token comes from the logits of the prompt, so its time is part of the prefill.
  const auto decoded = static_cast<double>(tokens.size()) - 1;
  return decode_seconds > 0 ? decoded / decode_seconds : 0;
}

Status check_prompt_length(std::span<const int64_t> prompt, const Manifest& manifest) {
  if (room_behind(std::ssize(prompt), manifest) >= 1) return {};
  return fail("session.context_full",
              fmt::format("the prompt of {} tokens exceeds the exported context of {}",
                          prompt.size(), manifest.build.context),
              "export with a larger --context, or shorten the prompt");
}

TextWriter::TextWriter(std::vector<int64_t> rest, int64_t reused, const Manifest& manifest,
                       const GenerateOptions& options)
    : options_(options), sampler_(options.sampler), feed_(std::move(rest)) {
  const int64_t room = room_behind(reused + std::ssize(feed_), manifest);
  most_ = std::min(options.max_tokens, room);
  if (room < options.max_tokens) text_.stopped_by = StoppedBy::context;
  done_ = most_ < 1;
}

// Feeds one chunk per step. Only the logits of the last token are needed.
Result<std::optional<int64_t>> TextWriter::step(Session& session) {
  const auto start = Clock::now();
  const auto count = static_cast<size_t>(session.chunk_size(std::ssize(feed_)));
  const LogitsOf wanted = count == feed_.size() ? LogitsOf::last : LogitsOf::none;
  MOEC_ASSIGN(const Rows logits, session.feed(std::span(feed_).first(count), {}, wanted));
  (text_.tokens.empty() ? text_.prefill_seconds : text_.decode_seconds) += seconds_since(start);
  feed_.erase(feed_.begin(), feed_.begin() + static_cast<std::ptrdiff_t>(count));
  if (!feed_.empty()) return std::nullopt;
  return take(logits);
}

// Samples the next token from the last row of `logits`.
Result<std::optional<int64_t>> TextWriter::take(const Rows& logits) {
  const std::span<const float> row = logits.row(logits.count() - 1);
  if (std::ranges::any_of(row, [](float logit) { return std::isnan(logit); }))
    return fail(
        "text.undefined_logits",
        fmt::format("the logits after {} generated tokens contain NaN", text_.tokens.size()),
        "export and run the model in f32 if either is f16; otherwise check the weights of "
        "the checkpoint for NaN and infinity");
  const int64_t token = sampler_.next(row);
  if (const auto stopped_by = stops(token, options_)) {
    text_.stopped_by = *stopped_by;
    text_.stopping_token = token;
    done_ = true;
    return std::nullopt;
  }
  text_.tokens.push_back(token);
  if (options_.top_logprobs)
    text_.logprobs.push_back(logprobs_of(row, token, *options_.top_logprobs));
  feed_ = {token};
  done_ = std::ssize(text_.tokens) >= most_;
  return token;
}

Result<GeneratedText> generate_text(Session& session, std::span<const int64_t> prompt,
                                    const GenerateOptions& options, const TokenCallback& on_token) {
  MOEC_TRY(check_prompt_length(prompt, session.manifest()));
  TextWriter writer({prompt.begin(), prompt.end()}, 0, session.manifest(), options);
  while (!writer.done()) {
    MOEC_ASSIGN(const std::optional<int64_t> token, writer.step(session));
    if (token && on_token) on_token(*token);
  }
  return writer.text();
}

}  // namespace moec
