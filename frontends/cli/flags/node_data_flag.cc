#include "frontends/cli/flags/node_data_flag.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace moec {

void add_node_data_flag(CLI::App& command, UserOutput& out, const std::string& contents) {
  out.flag = "--node-data";
  command.add_option(out.flag, out.path,
                     fmt::format("Also write files of node data for Model Explorer to this folder, "
                                 "with {}; for ONNX and TFLite exports",
                                 contents));
  command.add_flag("--force", out.force, "Replace existing files, but not folders");
}

}  // namespace moec
