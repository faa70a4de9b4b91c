// Finds the labelled spans of a text with an export that classifies tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/session/session.h"

namespace moec {

// Tokens begin … end - 1. If tokens are bytes, these are offsets into the text.
struct TextSpan {
  int64_t begin = 0, end = 0;
  std::string label;  // the class: "private_person"
  double score = 0;   // the mean probability of the labels of its tokens
};

struct TaggedText {
  std::vector<TextSpan> spans;  // in order; they do not overlap
  int64_t tokens = 0;           // that got a label: all of the text
  int64_t windows = 0;          // into which the text was cut
};

// The spans of a text. They are the same as if it went through the model in one pass, however many
// windows it takes. The manifest must have `tagging`. Errors: tagging.labels; run.width;
// run.not_judged if a token has no score or one that is not finite; those of Session::pass().
Result<TaggedText> tag_text(Session& session, std::span<const int64_t> tokens);

// Makes spans of bytes begin and end at boundaries of UTF-8 characters. A span that cuts a
// character is extended to all of it; if two spans cut the same one, the first span gets it. A span
// that becomes empty is removed.
void widen_to_characters(std::string_view text, std::vector<TextSpan>& spans);

// Succeeds if each byte of the text is a token that got a label. Error: run.not_judged.
Status check_judged(std::string_view text, const TaggedText& tagged);

// The text with <PRIVATE_PERSON> in place of each span of private_person, in the form that the
// release of Privacy Filter writes. Spans are in bytes.
std::string redact(std::string_view text, const std::vector<TextSpan>& spans);

}  // namespace moec
