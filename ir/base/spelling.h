// How names and strings are spelled in the text form of the IR, and in messages.
#pragma once

#include <string>
#include <string_view>

namespace moec {

// Characters of value, shard, port and state names, and those of tensor names that need no quotes.
bool is_name_char(char c);    // [A-Za-z0-9_.]
bool is_tensor_char(char c);  // [A-Za-z0-9_./-]
// A number stands for a value without a name, so no name may consist of digits alone.
bool is_all_digits(std::string_view text);

// "text" in quotes; quote, backslash and what is not printable ASCII are escaped as \" \\ \xhh.
std::string quoted(std::string_view text);

}  // namespace moec
