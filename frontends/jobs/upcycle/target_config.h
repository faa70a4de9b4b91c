// Derives the config.json of the new model from that of the dense one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/hf/config.h"
#include "ir/base/enum_table.h"
#include "ir/model/model_config.h"

namespace moec {

// Shared expert of a layer.
//   none       not supported
//   optional   optional, of any width
//   experts    required; its width is a multiple of the expert width
//   always     required, of any width
//   gated      required, of any width, times the sigmoid of a linear map
enum class SharedForm : uint8_t { none, optional, experts, always, gated };

// Layers that may have experts.
//   all    all layers must
//   any    any subset
//   last   all layers after some index
//   apart  any subset of the layers that consist of a feed-forward part only
enum class LayerChoice : uint8_t { all, any, last, apart };

// An architecture into which a dense model can be converted, and what its config can express.
struct TargetArch {
  std::string_view model_type;
  std::string_view class_name;  // class in transformers
  SharedForm shared = SharedForm::none;
  LayerChoice layers = LayerChoice::all;
  bool unnormalised = false;  // supports routing weights that are not normalised
  bool same_family = false;   // accepts only dense models of the same family
};

// In the order in which they are tried if the user names none.
std::span<const TargetArch> target_archs();
// Returns null if no architecture has this model_type.
const TargetArch* find_target_arch(std::string_view model_type);

// Properties of the new model. All sizes are resolved.
struct ExpertSizes {
  int64_t experts = 0, top_k = 0;
  int64_t expert_ff = 0;  // hidden units of an expert
  int64_t shared_ff = 0;  // of the shared expert; 0: no shared expert
  bool normalised = true;
  std::vector<bool> layers;  // true: the layer has experts
};

// The config of the new model. Writes defaults of the dense model's class explicitly, because those
// of the new class differ. `raw` is the dense model's config as JSON.
nlohmann::ordered_json target_config(const TargetArch& arch, const ExpertSizes& sizes,
                                     const HfConfig& dense, const nlohmann::ordered_json& raw);

// Describes the properties of the dense model that the new one lacks or changes, such as "norms of
// queries and keys"; empty if the architecture can represent the dense model. `moe` is the new
// config, read back: it must equal `dense` except for the feed-forward parts of layers that get
// experts. Biases that only the new model has are zeros and not a misfit.
std::vector<std::string> misfits(const ModelConfig& dense, const ModelConfig& moe);

}  // namespace moec
