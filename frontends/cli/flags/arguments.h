// The words of a command line, before the library parses them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
class ParseError;
}  // namespace CLI

namespace moec {

// Joins the words of lists with commas: "--tokens 1 16" becomes "--tokens 1,16". A word behind a
// list belongs to it if it has the form of an element: a number, a budget, the name of a pass or of
// a target. A folder whose name has that form is written ./16.
std::vector<std::string> join_lists(std::span<const char* const> words);

// The flags of the command that do not exist, in the order in which they stand, each with the
// nearest one; if there are none, the words that are too many. Errors: cli.unknown_flag,
// cli.surplus_word.
Status check_arguments(const CLI::App& command, std::span<const std::string> words);

// What the library found wrong with the arguments of a command. Codes:
//   cli.missing   an argument or a flag that is required
//   cli.value     a value that a flag does not take
//   cli.conflict  flags that exclude or require each other
//   cli.usage     anything else
Diagnostics describe_usage(const CLI::ParseError& error, const CLI::App& command);

}  // namespace moec
