// Interpretation of a config.json, which `moec inspect` and `moec family` print.
#pragma once

#include <string>

namespace moec {

// Value of a concept of the descriptor, and the source of the value.
struct ConceptReading {
  std::string name;
  std::string value;       // as JSON, or "unset"
  std::string key;         // key of the config; empty: the descriptor's default
  std::string expression;  // expression of the default: "= hidden / heads"
};

// Use of a config key that no concept reads.
struct KeyReading {
  std::string key, value;  // as JSON
  std::string use;         // description, such as "has the required value"
};

}  // namespace moec
