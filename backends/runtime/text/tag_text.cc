#include "backends/runtime/text/tag_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "backends/runtime/text/text_windows.h"
#include "backends/runtime/text/viterbi.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// Returns one row of logits per token, taken from the window that keeps the token.
Result<Rows> read_windows(Session& session, std::span<const int64_t> tokens,
                          const std::vector<TextWindow>& windows) {
  Rows all{session.manifest().logits.vocab, {}};
  for (const TextWindow& window : windows) {
    const auto part = tokens.subspan(static_cast<size_t>(window.begin),
                                     static_cast<size_t>(window.end - window.begin));
    MOEC_ASSIGN(const Rows logits, session.pass(part, window.begin));
    const auto first = logits.data.begin() - window.begin * logits.columns;
    all.data.insert(all.data.end(), first + window.keep_begin * logits.columns,
                    first + window.keep_end * logits.columns);
  }
  return all;
}

// Every token must have finite scores: a maximum over NaN or infinity would select an arbitrary
// label.
Status check_scores(const Rows& logits, int64_t tokens) {
  if (logits.count() != tokens)
    return fail("run.not_judged",
                fmt::format("the model scored {} of {} tokens", logits.count(), tokens),
                "export the model again");
  for (int64_t t = 0; t < tokens; ++t)
    for (const float score : logits.row(t))
      if (!std::isfinite(score))
        return fail(
            "run.not_judged",
            fmt::format("the scores of token {} are not finite, so its label is unknown", t),
            "run with --precision f32, or export with --dtype f32; to find the shard that "
            "overflows, run moec validate");
  return {};
}

// Checks the length of the whole text. The session cannot, because it only sees windows.
Status check_length(int64_t tokens, int64_t context) {
  if (tokens <= context) return {};
  return fail(
      "session.context_full",
      fmt::format("the text of {} tokens exceeds the exported context of {}", tokens, context),
      "export with a larger --context, or shorten the text");
}

std::vector<TextSpan> spans_of(const std::vector<size_t>& labels, const std::vector<Tag>& tags,
                               const Rows& log_probabilities) {
  std::vector<TextSpan> spans;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Tag& tag = tags[labels[i]];
    if (tag.is_outside()) continue;
    const auto at = static_cast<int64_t>(i);
    // The labels are a legal sequence, so a label that continues no span begins one.
    if (i == 0 || !in_one_span(tags[labels[i - 1]], tag))
      spans.push_back({at, at, tag.span_class, 0});
    spans.back().end = at + 1;
    spans.back().score += std::exp(static_cast<double>(log_probabilities.row(at)[labels[i]]));
  }
  for (TextSpan& span : spans) span.score /= static_cast<double>(span.end - span.begin);
  return spans;
}

// Returns true for any byte of a UTF-8 character except the first.
bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

Result<TaggedText> tag_text(Session& session, std::span<const int64_t> tokens) {
  const Manifest& manifest = session.manifest();
  MOEC_ASSIGN(const std::vector<Tag> tags, parse_tags(*manifest.tagging));
  MOEC_TRY(check_length(std::ssize(tokens), manifest.build.context));
  MOEC_ASSIGN(const std::vector<TextWindow> windows,
              cut_windows(std::ssize(tokens), manifest.build.tokens.back(), reach_of(manifest)));
  MOEC_ASSIGN(const Rows logits, read_windows(session, tokens, windows));
  MOEC_TRY(check_scores(logits, std::ssize(tokens)));
  const Rows log_probabilities = log_softmax(logits);
  const std::vector<size_t> labels = best_labels(log_probabilities, tags, *manifest.tagging);
  return TaggedText{spans_of(labels, tags, log_probabilities), std::ssize(tokens),
                    std::ssize(windows)};
}

void widen_to_characters(std::string_view text, std::vector<TextSpan>& spans) {
  const auto size = std::ssize(text);
  const auto inside = [&](int64_t i) { return i > 0 && i < size && is_continuation(at(text, i)); };
  constexpr int kMaxContinuations = 3;  // longer runs are not valid UTF-8
  // `taken` is the end of the previous span. That span keeps a character that both spans cut.
  int64_t taken = 0;
  for (TextSpan& span : spans) {
    for (int i = 0; i < kMaxContinuations && inside(span.begin); ++i) --span.begin;
    for (int i = 0; i < kMaxContinuations && inside(span.end); ++i) ++span.end;
    span.begin = std::max(span.begin, taken);
    taken = std::max(taken, span.end);
  }
  std::erase_if(spans, [](const TextSpan& span) { return span.begin >= span.end; });
}

Status check_judged(std::string_view text, const TaggedText& tagged) {
  if (tagged.tokens == std::ssize(text)) return {};
  return fail(
      "run.not_judged",
      fmt::format("{} of the {} bytes of the text have a label", tagged.tokens, text.size()),
      "redact with scripts/label_text.py, which maps tokens to bytes");
}

std::string redact(std::string_view text, const std::vector<TextSpan>& spans) {
  std::string redacted;
  size_t at = 0;
  for (const TextSpan& span : spans) {
    redacted += text.substr(at, static_cast<size_t>(span.begin) - at);
    redacted += '<';
    for (const char c : span.label)
      // toupper() is undefined for negative values, which a plain char can have.
      redacted += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    redacted += '>';
    at = static_cast<size_t>(span.end);
  }
  return redacted.append(text.substr(at));
}

}  // namespace moec
