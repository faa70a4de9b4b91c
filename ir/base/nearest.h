// Suggestions for misspelled names: "did you mean …?".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace moec {

// Returns the known name at the smallest edit distance from `name`, the first one on a tie. Edits
// are insertions, deletions, replacements and swaps of neighbours. Empty if the distance is above
// one and above a third of the known name's length, because such a suggestion would be a guess.
// Also empty if `name` is longer than 64 bytes.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

// Returns " (did you mean 'conv'?)", to be appended to the unknown name, or "" if no known name is
// near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace moec
