#include "backends/runtime/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace moec {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How many tokens may follow the prompt. The last one needs no row in the cache: it is sampled from
// the logits of the token before it and is not fed.
int64_t room_behind(std::span<const int64_t> prompt, const Manifest& manifest) {
  return manifest.build.context - std::ssize(prompt) + 1;
}

// What the token stops a text by, if it does.
std::optional<StoppedBy> stops(int64_t token, const GenerateOptions& options) {
  if (token == options.stop_token) return StoppedBy::stop_token;
  const auto& eos = options.eos_tokens;
  if (std::find(eos.begin(), eos.end(), token) != eos.end()) return StoppedBy::eos_token;
  return std::nullopt;
}

}  // namespace

double GeneratedText::decode_tokens_per_second() const {
  const auto decoded = static_cast<double>(tokens.size()) - 1;
  return decode_seconds > 0 ? decoded / decode_seconds : 0;
}

Status check_prompt_length(std::span<const int64_t> prompt, const Manifest& manifest) {
  if (room_behind(prompt, manifest) >= 1) return {};
  return fail("session.context_full",
              fmt::format("the prompt of {} tokens exceeds the exported context of {}",
                          prompt.size(), manifest.build.context),
              "export with a larger --context, or give a shorter prompt");
}

Result<GeneratedText> generate_text(Session& session, std::span<const int64_t> prompt,
                                    const GenerateOptions& options, const TokenCallback& on_token) {
  MOEC_TRY(check_prompt_length(prompt, session.manifest()));
  const int64_t room = room_behind(prompt, session.manifest());
  GeneratedText text;
  if (room < options.max_tokens) text.stopped_by = StoppedBy::context;
  Sampler sampler(options.sampler);
  std::vector<int64_t> feed(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < std::min(options.max_tokens, room); ++i) {
    const auto start = Clock::now();
    MOEC_ASSIGN(const Rows logits, session.feed(feed));
    (i == 0 ? text.prefill_seconds : text.decode_seconds) += seconds_since(start);
    const int64_t token = sampler.next(logits.row(logits.count() - 1));
    if (const auto stopped_by = stops(token, options)) {
      text.stopped_by = *stopped_by;
      text.stopping_token = token;
      break;
    }
    text.tokens.push_back(token);
    if (on_token) on_token(token);
    feed = {token};
  }
  return text;
}

}  // namespace moec
