#include "backends/runtime/tag_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "backends/runtime/text_windows.h"
#include "backends/runtime/viterbi.h"
#include "ir/base/at.h"

namespace moec {
namespace {

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

// The sequence of tags is legal, so each span that begins also ends before the next one.
std::vector<TextSpan> spans_of(const std::vector<size_t>& labels, const std::vector<Tag>& tags,
                               const Rows& log_probabilities) {
  std::vector<TextSpan> spans;
  double sum = 0;
  int64_t begin = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Tag& tag = tags[labels[i]];
    const auto at = static_cast<int64_t>(i);
    if (tag.role == TagRole::begin || tag.role == TagRole::single) {
      begin = at;
      sum = 0;
    }
    sum += std::exp(static_cast<double>(log_probabilities.row(at)[labels[i]]));
    if (tag.role == TagRole::end || tag.role == TagRole::single)
      spans.push_back({begin, at + 1, tag.span_class, sum / static_cast<double>(at + 1 - begin)});
  }
  return spans;
}

// Whether the byte is part of a UTF-8 character, but not its first byte.
bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

Result<TaggedText> tag_text(Session& session, std::span<const int64_t> tokens) {
  const Manifest& manifest = session.manifest();
  MOEC_ASSIGN(const std::vector<Tag> tags, parse_tags(*manifest.tagging));
  MOEC_ASSIGN(const std::vector<TextWindow> windows,
              cut_windows(std::ssize(tokens), manifest.build.tokens.back(), reach_of(manifest)));
  MOEC_ASSIGN(const Rows logits, read_windows(session, tokens, windows));
  const Rows log_probabilities = log_softmax(logits);
  const std::vector<size_t> labels = best_labels(log_probabilities, tags, *manifest.tagging);
  return TaggedText{spans_of(labels, tags, log_probabilities), std::ssize(windows)};
}

void widen_to_characters(std::string_view text, std::vector<TextSpan>& spans) {
  const auto size = std::ssize(text);
  const auto inside = [&](int64_t i) { return i > 0 && i < size && is_continuation(at(text, i)); };
  constexpr int kMostContinuations = 3;  // more of them in a row are not valid UTF-8
  int64_t taken = 0;
  for (TextSpan& span : spans) {
    for (int i = 0; i < kMostContinuations && inside(span.begin); ++i) --span.begin;
    for (int i = 0; i < kMostContinuations && inside(span.end); ++i) ++span.end;
    span.begin = std::max(span.begin, taken);
    taken = std::max(taken, span.end);
  }
  std::erase_if(spans, [](const TextSpan& span) { return span.begin >= span.end; });
}

std::string redact(std::string_view text, const std::vector<TextSpan>& spans) {
  std::string redacted;
  size_t at = 0;
  for (const TextSpan& span : spans) {
    redacted += text.substr(at, static_cast<size_t>(span.begin) - at);
    redacted += '<';
    for (const char c : span.label)
      redacted += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    redacted += '>';
    at = static_cast<size_t>(span.end);
  }
  return redacted.append(text.substr(at));
}

}  // namespace moec
