// The config.json files of published models, compiled into the binary so that a model can be
// planned by name. Each is an unchanged copy, models/published/NAME.json, or index.json states its
// source; index.json lists the models with their checkpoints and numbers of parameters.
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
  // ("15706484224") or rounded ("80.4B"). Empty: no published figure is known.
  std::string parameters;
  std::string_view config;  // text of the config.json
  // The source of `config` if it is not the release's file: "defaults of transformers 5.24" (of the
  // config class that names the release) or "public figures".
  // NOLINTNEXTLINE(readability-redundant-member-init): lists of initializers may omit it
  std::string from = {};

  // True if `count` rounds to `parameters`, or if `parameters` is empty.
  bool agrees_with(int64_t count) const;
};

// Sorted by name.
std::span<const PublishedModel> published_models();

// Finds the model by name, by checkpoint ("Qwen/Qwen3-30B-A3B", "Qwen3-30B-A3B"), or by a unique
// prefix of its name, ignoring case. Errors: published.unknown, with the nearest name;
// published.several, with the names that match the prefix.
Result<const PublishedModel*> find_published(std::string_view name);

}  // namespace moec
