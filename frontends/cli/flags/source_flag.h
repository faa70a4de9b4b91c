// The model that a command reads.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace moec {

// A positional argument. A folder with one GGUF model stands for its file (source_in_folder()).
CLI::Option* add_source(CLI::App& command, const std::string& name, std::string& source,
                        const std::string& help);

}  // namespace moec
