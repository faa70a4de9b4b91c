// Finds the labelled spans of a text with an export that classifies tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/session/session.h"

namespace moec {

// Tokens [begin, end). If tokens are bytes, `begin` and `end` are offsets into the text.
struct TextSpan {
  int64_t begin = 0, end = 0;
  std::string label;  // the class: "private_person"
  double score = 0;   // mean probability of the labels of the span's tokens
};

struct TaggedText {
  std::vector<TextSpan> spans;  // in text order, without overlap
  int64_t tokens = 0;           // number of labelled tokens, which is the length of the text
  int64_t windows = 0;          // number of windows into which the text was cut
};

// Returns the spans of a text. The result does not depend on the number of windows: it equals that
// of one pass. The manifest must have `tagging`. Errors: tagging.labels; run.width; run.not_judged
// (a token has no score, or a score that is not finite); those of Session::pass().
Result<TaggedText> tag_text(Session& session, std::span<const int64_t> tokens);

// Aligns spans of bytes with the boundaries of UTF-8 characters. A span that cuts a character is
// extended to include it; if two spans cut the same character, the first span gets it. Spans that
// become empty are removed.
void widen_to_characters(std::string_view text, std::vector<TextSpan>& spans);

// Succeeds if every byte of the text is a labelled token. Error: run.not_judged.
Status check_judged(std::string_view text, const TaggedText& tagged);

// Returns the text with each span replaced by its label, as in the Privacy Filter release:
// <PRIVATE_PERSON> for a span of private_person. The offsets of spans are bytes.
std::string redact(std::string_view text, const std::vector<TextSpan>& spans);

}  // namespace moec
