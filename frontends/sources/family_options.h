// How the config of a checkpoint is read, if not by the built-in descriptor of its family alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moec {

struct FamilyOptions {
  std::optional<std::string> file;        // a descriptor (models/families/README.md)
  std::vector<std::string> ignored_keys;  // keys of the config that count as harmless

  bool any() const { return file.has_value() || !ignored_keys.empty(); }
};

}  // namespace moec
