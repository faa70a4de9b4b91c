// Reads the JSON files of exports and targets.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/files.h"

namespace moec {

inline nlohmann::json read_json(const std::string& path) {
  return nlohmann::json::parse(read_file(path));
}

}  // namespace moec
