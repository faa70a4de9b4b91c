// Keys of GGUF files with one value per layer, which determine the kinds of a model's layers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/json_fields.h"
#include "ir/model/model_config.h"

namespace moec {

// The value of a key in layers of one kind.
struct GgufLayerValue {
  double number = 0;
  bool is_flag = false;
  std::string concept_name;  // the value is that of the concept and is not 0; empty: `number`
};

struct GgufLayerKind {
  std::string name;                                         // see layer_kind()
  std::map<std::string, GgufLayerValue, std::less<>> keys;  // without "ARCH."
};

// The meaning of a key with a single number n instead of a list: every n-th layer has the first
// kind's value, the other layers have the second kind's.
struct GgufLayerStep {
  std::string number;                // key of the number; empty: the key itself may have a number
  std::optional<int64_t> otherwise;  // llama.cpp's number if the keys are absent
  bool from_first = false;           // the n-th layers are 0, n, …; otherwise n - 1, 2n - 1, …
};

struct GgufLayers {
  std::string list;                  // concept for the list of kinds; empty: no such keys
  std::vector<GgufLayerKind> kinds;  // a layer is of the first kind with its values
  std::map<std::string, GgufLayerStep, std::less<>> steps;
};

// Reads the member "layers" of a descriptor.
Status read_layer_keys(JsonFields& fields, GgufLayers& layers);

// The kind of a layer: full_attention, sliding_attention, chunked_attention, conv (a short
// convolution), linear_attention (another recurrent mixer), moe, mlp (layers without a mixer).
std::string_view layer_kind(const LayerConfig& layer);

}  // namespace moec
