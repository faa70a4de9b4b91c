// Labels that mark spans of tokens. O is outside of any span; the others are a letter and a class,
// and the letters in use tell the scheme:
//
//   IO     I-c             a span of class c is a run of I-c
//   BIO    B-c I-c         B-c begins a span, I-c continues it (IOB2). Where a class has no B-c,
//                          I-c begins a span as well, in all classes (IOB1)
//   BIOES  B-c I-c E-c S-c B-c begins a span of several tokens, E-c ends it, S-c is one of one
//   token BILOU  B-c I-c L-c U-c the same with other letters
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// What a label says of its token. A tag without class is O.
struct Tag {
  std::string span_class;
  bool begins = false;     // may be the first token of a span
  bool continues = false;  // may stand behind another token of its span
  bool goes_on = false;    // may stand before another token of its span
  bool ends = false;       // may be the last token of a span

  bool is_outside() const { return span_class.empty(); }
  bool operator==(const Tag&) const = default;
};

// The labels as tags, by id. Error tagging.labels: a label is no tag, the letters are of no scheme
// or of two, a class lacks a letter without which its spans have no legal sequence, or no label is
// O.
Result<std::vector<Tag>> parse_tags(const manifest::Tagging& tagging);

// Whether a legal sequence may begin or end with the tag.
bool may_begin(const Tag& tag);
bool may_end(const Tag& tag);

// Whether two neighbouring tags of a legal sequence belong to one span.
bool in_one_span(const Tag& from, const Tag& to);

// The bias of the transition between two neighbouring tags; nothing if the transition is not legal.
std::optional<double> step_bias(const Tag& from, const Tag& to, const manifest::Tagging& tagging);

}  // namespace moec
