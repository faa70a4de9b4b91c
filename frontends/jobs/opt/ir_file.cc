#include "frontends/jobs/opt/ir_file.h"

#include <sstream>

#include "passes/pass_options.h"

namespace moec {
namespace {

constexpr std::string_view kRun = "// run:", kExpect = "// expect", kNextCase = "// ----";

Status read_run_line(const std::string& words, IrFile& file) {
  std::istringstream stream(words);
  std::string word;
  stream >> word;
  if (word != "verify" && word != "print") file.passes = word;
  while (stream >> word) MOEC_TRY(set_pass_option(file.options, word));
  return {};
}

}  // namespace

Result<IrFile> split_ir_file(std::string_view text, const PassOptions& defaults) {
  IrFile file{{}, {}, defaults};
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kExpect) || line.starts_with(kNextCase)) break;
    if (line.starts_with(kRun)) MOEC_TRY(read_run_line(line.substr(kRun.size()), file));
    file.input += line + "\n";
  }
  return file;
}

}  // namespace moec
