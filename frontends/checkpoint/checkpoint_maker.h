// The command that writes a checkpoint, as it appears in error codes, file names and messages.
#pragma once

#include <string>
#include <string_view>

namespace moec {

struct CheckpointMaker {
  std::string_view command;     // "upcycle"
  std::string_view unfinished;  // suffix of the folder while it is written: "upcycling"

  // An error code of the command, such as upcycle.out_exists.
  std::string code(std::string_view fault) const {
    return std::string(command) + "." + std::string(fault);
  }
  // The code of the error that ends the command when its user stops it.
  std::string interrupted() const { return code("interrupted"); }
  // The file in the new folder that lists the other files with their digests.
  std::string list_file() const { return "moec_" + std::string(command) + ".json"; }
};

}  // namespace moec
