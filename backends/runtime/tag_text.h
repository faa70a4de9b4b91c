// Labelled spans of a text, from an export that classifies tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/session.h"

namespace moec {

// Tokens begin … end - 1; where tokens are bytes these are bytes of the text.
struct TextSpan {
  int64_t begin = 0, end = 0;
  std::string label;  // the class: "private_person"
  double score = 0;   // mean probability of its tokens' labels
};

struct TaggedText {
  std::vector<TextSpan> spans;  // in order, none overlaps another
  int64_t windows = 0;          // that the text was read in
};

// The spans of a text, as if it went through the model in one pass. The session's export must have
// `tagging`. Errors: run.labels, run.width, those of Session.
Result<TaggedText> tag_text(Session& session, std::span<const int64_t> tokens);

// Makes spans of bytes begin and end between characters of UTF-8: one that cuts a character takes
// all of it, the first where two cut the same one. A span of which nothing is left goes.
void widen_to_characters(std::string_view text, std::vector<TextSpan>& spans);

// The text with <PRIVATE_PERSON> in place of a span of private_person, as the release of Privacy
// Filter writes it. Spans are in bytes.
std::string redact(std::string_view text, const std::vector<TextSpan>& spans);

}  // namespace moec
