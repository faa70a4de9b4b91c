// Reads the keys to which each layer attends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/sources/config/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// Keys to which a layer attends: all, a sliding window, or the same chunk; none if the layer has
// the family's other mixer.
enum class AttentionSpan : uint8_t { all, window, chunk, none };

// Sets `mixer`, `window` and `chunk` of each layer; `rotated` must have been read. Returns the
// spans.
std::vector<AttentionSpan> read_spans(ConfigReader& reader, std::vector<LayerConfig>& layers);

// Returns the type name of each layer: the config's name, unless the layer's span has changed.
std::vector<std::string> type_names(ConfigReader& reader, const std::vector<AttentionSpan>& spans);

// Returns true if an indexer selects the keys in layers of this type. In every context that moec
// supports, these layers attend to all keys (limit_to_chosen_keys() in config.cc).
bool is_indexed(const Family& family, const std::string& layer_type);

}  // namespace moec
