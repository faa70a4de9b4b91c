// Labels that mark spans of tokens. O is a token outside of any span; every other label has a
// letter and a class. The letters in use determine the scheme:
//
//   IO     I-c              a span of class c is a maximal run of I-c
//   BIO    B-c I-c          B-c begins a span, I-c continues it (IOB2). If any class lacks B-c, I-c
//                           can also begin a span, in all classes (IOB1)
//   BIOES  B-c I-c E-c S-c  B-c begins a span of several tokens, E-c ends it; S-c is a whole span
//   BILOU  B-c I-c L-c U-c  as BIOES, with L for E and U for S
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Tag of a token, parsed from its label. An empty class means O.
struct Tag {
  std::string span_class;
  bool begins = false;     // may be the first token of a span
  bool continues = false;  // may follow another token of its span
  bool goes_on = false;    // may precede another token of its span
  bool ends = false;       // may be the last token of a span

  bool is_outside() const { return span_class.empty(); }
  bool operator==(const Tag&) const = default;
};

// Returns the tag of each label id. Error: tagging.labels (a label is not a tag, the letters mix
// two schemes, a class lacks a letter that its spans need, or no label is O).
Result<std::vector<Tag>> parse_tags(const manifest::Tagging& tagging);

// Returns true if a legal sequence can begin or end with the tag.
bool may_begin(const Tag& tag);
bool may_end(const Tag& tag);

// Returns true if two adjacent tags of a legal sequence belong to the same span.
bool in_one_span(const Tag& from, const Tag& to);

// Returns the bias of the transition between two adjacent tags; absent if the transition is
// illegal.
std::optional<double> step_bias(const Tag& from, const Tag& to, const manifest::Tagging& tagging);

}  // namespace moec
