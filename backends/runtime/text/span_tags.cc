#include "backends/runtime/text/span_tags.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace moec {
namespace {

constexpr const char* kLabelsCode = "tagging.labels";
constexpr const char* kLabelsHint =
    "rename the labels in id2label of config.json to follow IO, BIO, BIOES or BILOU: O, or a class "
    "with the prefix B-, I-, E-, S-, L- or U-; a plain NAME is read as I-NAME";

// A label, split into its letter and its class. The label O has no class.
struct Letter {
  char letter = 'O';
  std::string span_class;
};

Result<Letter> parse_letter(const std::string& label) {
  if (label == "O") return Letter{};
  // A prefix without a class, such as "B-", is not a tag.
  const bool has_class = label.size() > 2 && label[1] == '-';
  if (has_class && std::string_view("BIESLU").find(label[0]) != std::string_view::npos)
    return Letter{label[0], label.substr(2)};
  return fail(kLabelsCode, fmt::format("the label \"{}\" does not mark spans", label), kLabelsHint);
}

// Scheme of a model's labels, determined by the letters in use. BILOU is converted to BIOES.
class Scheme {
 public:
  static Result<Scheme> of(const std::vector<Letter>& letters) {
    Scheme scheme;
    std::set<char> used;
    for (const Letter& each : letters) {
      used.insert(each.letter);
      if (each.letter != 'O') scheme.by_class_[each.span_class].insert(bioes(each.letter));
    }
    if (!used.contains('O'))
      return fail(kLabelsCode, "no label is O, so every token would be in a span",
                  "add the label O to id2label in config.json");
    const bool has_es = used.contains('E') || used.contains('S');
    const bool has_lu = used.contains('L') || used.contains('U');
    if (has_es && has_lu)
      return fail(kLabelsCode, "the labels mix the schemes BIOES and BILOU", kLabelsHint);
    scheme.has_ends_ = has_es || has_lu;
    MOEC_TRY(scheme.check_classes(has_lu ? 'L' : 'E'));
    return scheme;
  }

  Tag tag(const Letter& each) const {
    if (each.letter == 'O') return {};
    const char letter = bioes(each.letter);
    Tag tag{each.span_class};
    tag.begins = letter == 'B' || letter == 'S' || (letter == 'I' && inside_begins_);
    tag.continues = letter == 'I' || letter == 'E';
    tag.goes_on = letter == 'B' || letter == 'I';
    tag.ends = !has_ends_ || letter == 'E' || letter == 'S';
    return tag;
  }

 private:
  static char bioes(char letter) { return letter == 'L' ? 'E' : letter == 'U' ? 'S' : letter; }

  // Each label must occur in some legal sequence. Otherwise, its tokens would silently be labelled
  // O.
  Status check_classes(char end) {
    for (const auto& [name, letters] : by_class_) {
      const bool begins = letters.contains('B'), inside = letters.contains('I');
      if (!has_ends_) {
        inside_begins_ |= inside && !begins;
        continue;
      }
      const bool ends = letters.contains('E');
      if (begins == ends && (begins || !inside)) continue;
      return fail(kLabelsCode,
                  fmt::format("the class {} has labels for spans of several tokens, but no {}-{}",
                              name, begins ? end : 'B', name),
                  "add the label to id2label in config.json, or remove the class");
    }
    return {};
  }

  std::map<std::string, std::set<char>> by_class_;
  bool has_ends_ = false;       // BIOES or BILOU
  bool inside_begins_ = false;  // IO or IOB1
};

}  // namespace

Result<std::vector<Tag>> parse_tags(const manifest::Tagging& tagging) {
  std::vector<Letter> letters;
  for (const manifest::Label& label : tagging.labels) {
    MOEC_ASSIGN(Letter letter, parse_letter(label.name));
    letters.push_back(std::move(letter));
  }
  MOEC_ASSIGN(const Scheme scheme, Scheme::of(letters));
  std::vector<Tag> tags;
  for (const Letter& letter : letters) tags.push_back(scheme.tag(letter));
  return tags;
}

bool may_begin(const Tag& tag) { return tag.is_outside() || tag.begins; }

bool may_end(const Tag& tag) { return tag.is_outside() || tag.ends; }

bool in_one_span(const Tag& from, const Tag& to) {
  return from.goes_on && to.continues && from.span_class == to.span_class;
}

std::optional<double> step_bias(const Tag& from, const Tag& to, const manifest::Tagging& tagging) {
  // Without labels for ends (IO, BIO), every tag inside a span goes on, so inside_to_end is unused.
  if (in_one_span(from, to)) return to.goes_on ? tagging.inside_to_inside : tagging.inside_to_end;
  if (!may_end(from) || !may_begin(to)) return std::nullopt;
  if (to.is_outside()) return from.is_outside() ? tagging.stay_outside : tagging.end_to_outside;
  return from.is_outside() ? tagging.outside_to_start : tagging.end_to_start;
}

}  // namespace moec
