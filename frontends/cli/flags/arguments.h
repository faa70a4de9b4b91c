// Handles the words of a command line before and after CLI11 parses them.
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

// Joins the words of lists with commas: "--tokens 1 16" becomes "--tokens 1,16". A word after a
// list belongs to the list if the word has the form of an element: a number, a budget, the name of
// a pass or target, or for --text a file. A folder with such a name must be passed with a path,
// e.g. ./16.
std::vector<std::string> join_lists(std::span<const char* const> words);

// Reports all unknown flags in the order of the words, each with the nearest known one. If there
// are none, reports the surplus words. Errors: cli.unknown_flag, cli.surplus_word.
Status check_arguments(const CLI::App& command, std::span<const std::string> words);

// Converts an error that CLI11 reports for the arguments of `command`. Codes:
//   cli.missing   an argument or a flag that is required
//   cli.value     a value that a flag does not accept
//   cli.conflict  flags that exclude or require each other
//   cli.usage     anything else
Diagnostics describe_usage(const CLI::ParseError& error, const CLI::App& command);

}  // namespace moec
