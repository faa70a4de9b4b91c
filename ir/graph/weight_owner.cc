#include "ir/graph/weight_owner.h"

#include <fmt/format.h>

#include "ir/base/parse_number.h"
#include "ir/graph/ops.h"

namespace moec {
namespace {

// Removes and returns the text up to the next space, and removes the space. Empty if there is no
// space.
std::optional<std::string_view> take_word(std::string_view& line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(space + 1);
  return word;
}

bool take_whole(std::string_view& line, int64_t& number) {
  const auto word = take_word(line);
  if (!word) return false;
  // parse_whole() returns no negative number, so −1 marks an invalid word.
  number = parse_whole(*word).value_or(-1);
  return number >= 0;
}

// Removes the owner from the start of `line`; the name remains.
std::optional<WeightOwner> take_owner(std::string_view& line) {
  const auto word = take_word(line);
  const auto role = word ? parse_enum<WeightRole>(*word) : std::nullopt;
  if (!role) return std::nullopt;
  WeightOwner owner{*role};
  if (owner.role == WeightRole::plain) return owner;
  const bool good = take_whole(line, owner.layer) && take_whole(line, owner.first) &&
                    take_whole(line, owner.count) && take_whole(line, owner.axis);
  return good && owner.count > 0 ? std::optional(owner) : std::nullopt;
}

}  // namespace

std::string describe(const WeightOwner& owner) {
  if (owner.role == WeightRole::plain) return "no expert";
  if (owner.role == WeightRole::routing) return fmt::format("the router of layer {}", owner.layer);
  if (owner.count == 1) return fmt::format("expert {} of layer {}", owner.first, owner.layer);
  return fmt::format("experts {} to {} of layer {}, along axis {}", owner.first,
                     owner.first + owner.count - 1, owner.layer, owner.axis);
}

std::string to_text(const WeightOwners& owners) {
  std::string text;
  for (const auto& [name, owner] : owners)
    if (owner.role == WeightRole::plain)
      text += fmt::format("plain {}\n", name);
    else
      text += fmt::format("{} {} {} {} {} {}\n", enum_name(owner.role), owner.layer, owner.first,
                          owner.count, owner.axis, name);
  return text;
}

std::optional<WeightOwners> parse_weight_owners(std::string_view text) {
  WeightOwners owners;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto owner = take_owner(line);
    // The name is the rest of the line, so it may contain spaces.
    if (!owner || line.empty() || !owners.emplace(line, *owner).second) return std::nullopt;
  }
  return owners;
}

}  // namespace moec
