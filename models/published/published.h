// Published models: the config.json of each, as it was published, compiled into this binary so that
// a model can be planned by its name alone. Files: models/published/NAME.json; index.json names
// each with its checkpoint and its number of parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

struct PublishedModel {
  std::string name;        // "qwen3-30b-a3b"
  std::string checkpoint;  // "Qwen/Qwen3-30B-A3B"
  // All weights of the text decoder, the embedding and an untied head included: digits, or rounded
  // as in "80.4B". Empty: not known but from the config itself.
  std::string parameters;
  std::string_view config;  // text of the config.json

  // Whether a count rounds to `parameters`; true where that is empty.
  bool agrees_with(int64_t count) const;
};

// Sorted by name.
std::span<const PublishedModel> published_models();

// Error published.unknown, with the nearest name.
Result<const PublishedModel*> find_published(std::string_view name);

}  // namespace moec
