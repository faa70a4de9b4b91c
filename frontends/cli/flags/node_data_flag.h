// The flags of the commands that write overlays for Model Explorer.
#pragma once

#include <string>

#include "ir/base/output_apart.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// --node-data, with help that names the `contents` of the overlays, and --force. Sets out.flag.
void add_node_data_flag(CLI::App& command, UserOutput& out, const std::string& contents);

}  // namespace moec
