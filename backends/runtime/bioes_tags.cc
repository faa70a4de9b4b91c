#include "backends/runtime/bioes_tags.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {
namespace {

std::optional<Tag> parse_tag(const std::string& label) {
  static constexpr std::string_view kLetters = "BIES";
  static constexpr TagRole kRoles[] = {TagRole::begin, TagRole::inside, TagRole::end,
                                       TagRole::single};
  if (label == "O") return Tag{};
  if (label.size() < 3 || label[1] != '-') return std::nullopt;
  const size_t at = kLetters.find(label[0]);
  if (at == std::string_view::npos) return std::nullopt;
  return Tag{kRoles[at], label.substr(2)};
}

bool is_open(const Tag& tag) { return tag.role == TagRole::begin || tag.role == TagRole::inside; }

}  // namespace

Result<std::vector<Tag>> parse_tags(const manifest::Tagging& tagging) {
  std::vector<Tag> tags;
  for (const manifest::Label& label : tagging.labels) {
    const std::optional<Tag> tag = parse_tag(label.name);
    if (!tag)
      return fail(
          "run.labels", fmt::format("the label \"{}\" is not a BIOES tag", label.name),
          "spans are decoded from labels O, B-…, I-…, E-… and S-…; for other labels, decode "
          "the logits in your own runtime");
    tags.push_back(*tag);
  }
  if (std::find(tags.begin(), tags.end(), Tag{}) == tags.end())
    return fail("run.labels", "no label is O, so every token would be in a span",
                "add the label O to id2label in config.json");
  return tags;
}

bool may_begin(const Tag& tag) { return tag.role != TagRole::inside && tag.role != TagRole::end; }

bool may_end(const Tag& tag) { return !is_open(tag); }

std::optional<double> step_bias(const Tag& from, const Tag& to, const manifest::Tagging& tagging) {
  if (is_open(from)) {
    if (from.span_class != to.span_class) return std::nullopt;
    if (to.role == TagRole::inside) return tagging.inside_to_inside;
    if (to.role == TagRole::end) return tagging.inside_to_end;
    return std::nullopt;
  }
  if (!may_begin(to)) return std::nullopt;
  const bool outside = from.role == TagRole::outside;
  if (to.role == TagRole::outside) return outside ? tagging.stay_outside : tagging.end_to_outside;
  return outside ? tagging.outside_to_start : tagging.end_to_start;
}

}  // namespace moec
