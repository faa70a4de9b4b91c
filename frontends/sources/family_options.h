// Options for reading a config: a user's family descriptor, or keys to ignore.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moec {

struct FamilyOptions {
  std::optional<std::string> file;        // family descriptor (models/families/README.md)
  std::vector<std::string> ignored_keys;  // keys of the config to treat as harmless

  bool any() const { return file.has_value() || !ignored_keys.empty(); }
};

}  // namespace moec
