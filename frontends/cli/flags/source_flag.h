// The positional argument for the model that a command reads.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace moec {

// Adds a positional argument. A folder with a single GGUF model is replaced with that file
// (source_in_folder()).
CLI::Option* add_source(CLI::App& command, const std::string& name, std::string& source,
                        const std::string& help);

}  // namespace moec
