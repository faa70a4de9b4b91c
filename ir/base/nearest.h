// "Did you mean …?": the known name that is closest to a name a user gave.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace moec {

// The known name at the smallest edit distance from `name` (insertions, deletions, replacements and
// swaps of neighbours), the first one on a tie. Empty when the distance is above one and above a
// third of the name's length: such a suggestion would be a guess.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

// " (did you mean 'conv'?)", to be appended to the unknown name; "" when no known name is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace moec
