// The config.json of the new model, from that of the dense one.
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

// The architectures that a dense model can become, and what their configs can say.

// What stands beside the routed experts of a layer.
//   none       nothing
//   optional   a shared expert, if it has a width
//   experts    always, as wide as a whole number of experts
//   always     always, of any width
//   gated      always, of any width, times the sigmoid of a linear map
enum class SharedForm : uint8_t { none, optional, experts, always, gated };

// Which layers have experts.
//   all    every one
//   any    any of them
//   last   all from one on
//   apart  any of those that are a feed-forward part alone
enum class LayerChoice : uint8_t { all, any, last, apart };

struct TargetArch {
  std::string_view model_type;
  std::string_view class_name;  // of transformers
  SharedForm shared = SharedForm::none;
  LayerChoice layers = LayerChoice::all;
  bool unnormalised = false;  // weights need not be normalised
  bool same_family = false;   // only a model of this family itself becomes it
};

// In the order in which they are tried where none is named.
std::span<const TargetArch> target_archs();
// Null where there is none.
const TargetArch* find_target_arch(std::string_view model_type);

// What of the new model is decided; all sizes are resolved.
struct ExpertSizes {
  int64_t experts = 0, top_k = 0;
  int64_t expert_ff = 0;  // hidden units of an expert
  int64_t shared_ff = 0;  // of the shared expert; 0: none
  bool normalised = true;
  std::vector<bool> layers;  // which have experts
};

// The keys of the new model. What the config of the dense model leaves to the defaults of its class
// is written out, because those of another class differ. `raw` is the dense model's own config.
nlohmann::ordered_json target_config(const TargetArch& arch, const ExpertSizes& sizes,
                                     const HfConfig& dense, const nlohmann::ordered_json& raw);

// Whether an architecture can hold a dense model: its config, read back, must be the dense model
// but for the feed-forward parts of the layers that get experts.

// What of the dense model the new one lacks or changes, in words: "norms of queries and keys".
// Biases that only the new model has are zeros and no misfit.
std::vector<std::string> misfits(const ModelConfig& dense, const ModelConfig& moe);

}  // namespace moec
