// How a config.json was understood, for people: `moec inspect` and `moec family` print it.
#pragma once

#include <string>

namespace moec {

// The value of a concept that the descriptor names, and where it came from.
struct ConceptReading {
  std::string name;
  std::string value;       // as JSON, or "unset"
  std::string key;         // of the config; empty: the descriptor's default
  std::string expression;  // that the default is: "= hidden / heads"
};

// The use of a key of the config that no concept reads.
struct KeyReading {
  std::string key, value;  // as JSON
  std::string use;         // for people
};

}  // namespace moec
