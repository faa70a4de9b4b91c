// Spelling of names and strings in the text form of the IR and in messages.
#pragma once

#include <string>
#include <string_view>

namespace moec {

// is_name_char: characters of value, shard, port and state names. is_tensor_char: characters of
// tensor names that need no quotes.
bool is_name_char(char c);    // [A-Za-z0-9_.]
bool is_tensor_char(char c);  // [A-Za-z0-9_./-]
// A number denotes a value without a name, so a name must not consist of digits only.
bool is_all_digits(std::string_view text);

// Returns the text in quotes. Quotes, backslashes, and bytes that are not printable ASCII are
// escaped as \" \\ \xhh.
std::string quoted(std::string_view text);

}  // namespace moec
