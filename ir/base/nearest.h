// "Did you mean …?": the known name that is closest to a name a user gave.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace moec {

// The known name with the fewest edits (insert, delete, replace, swap of neighbours) from `name`,
// the earliest among equals; empty when even that one differs in more than a third of its letters
// and in more than one.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

// " (did you mean 'conv'?)", or "" when nothing is near: to be put after the unknown name.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace moec
