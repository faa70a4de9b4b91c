// The flag that names the interpreter of chat templates.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// The environment variable MOEC_PYTHON, else python3.
std::string default_python();

void add_python_flag(CLI::App& command, std::string& python);

}  // namespace moec
