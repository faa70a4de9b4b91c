#include "frontends/cli/flags/chat_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

namespace moec {

std::string default_python() {
  // With MOEC_PYTHON, users need not repeat --python in each command.
  const char* named = std::getenv("MOEC_PYTHON");
  return named ? named : "python3";
}

void add_python_flag(CLI::App& command, std::string& python) {
  command.add_option("--python", python,
                     "Python interpreter with jinja2, for chat templates (default: the environment "
                     "variable MOEC_PYTHON, else python3)");
}

}  // namespace moec
