// The config.json files of published models, compiled into the binary so that a model can be
// planned by name. Each is models/published/NAME.json, as it was published; index.json lists the
// models with their checkpoints and numbers of parameters.
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
  // The number of weights of the text decoder, including the embedding and an untied head: exact
  // ("15706484224") or rounded ("80.4B"). Empty: no figure besides the config is known.
  std::string parameters;
  std::string_view config;  // text of the config.json

  // Whether `count` rounds to `parameters`; true if that is empty.
  bool agrees_with(int64_t count) const;
};

// Sorted by name.
std::span<const PublishedModel> published_models();

// The model with this name or checkpoint ("Qwen/Qwen3-30B-A3B", "Qwen3-30B-A3B"), or the only one
// whose name begins so; case does not matter. Errors: published.unknown, with the nearest name;
// published.several, with the names that begin so.
Result<const PublishedModel*> find_published(std::string_view name);

}  // namespace moec
