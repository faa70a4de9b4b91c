// The flag for the Python interpreter that renders chat templates.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// Returns the value of the environment variable MOEC_PYTHON, or python3 if it is not set.
std::string default_python();

void add_python_flag(CLI::App& command, std::string& python);

}  // namespace moec
