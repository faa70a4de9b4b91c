#include "frontends/cli/python_script.h"

#include <fmt/format.h>

#include <filesystem>

#include "backends/files/spawn_program.h"
#include "frontends/cli/print/print_findings.h"

namespace moec {

namespace fs = std::filesystem;

Result<std::string> find_script(const std::string& script, const std::string& advice) {
  // The program is in build/PRESET/frontends of its checkout.
  const fs::path built = fs::path(path_of_this_program()).parent_path();
  // This program's checkout comes first, so that the script has the version of the program.
  for (const fs::path& root : {built / "../../..", fs::path(".")})
    if (fs::exists(root / script)) return (root / script).lexically_normal().string();
  return fail(
      "script.missing",
      fmt::format("{} is neither in this program's checkout nor in the working folder", script),
      advice);
}

Result<int> run_script(const PythonScript& script, const std::vector<std::string>& arguments,
                       bool quiet) {
  std::vector<std::string> words = {script.path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  MOEC_ASSIGN(const int code, run_program(script.python, words, quiet));
  if (code == kExitFine || code == kExitFellShort) return code;
  return fail(script.error_code,
              fmt::format("{} {} exited with code {}", script.python, script.path, code),
              "read its error above; " + script.advice);
}

}  // namespace moec
