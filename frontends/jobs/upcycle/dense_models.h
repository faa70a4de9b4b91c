// The models that an upcycling reads: the dense model, further models of its shape, and its
// adapters.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/jobs/upcycle/ffn_source.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/sources/hf/config.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Prefix of tensor names from models other than the dense one.
inline constexpr std::string_view kOtherModel = "other/";

struct DenseModels {
  std::shared_ptr<const Family> user_family;  // the user-defined family of `config`, if any
  HfConfig config;                            // of the dense model
  std::string config_text;
  FfnSource dense;               // feed-forward parts of the dense model
  std::vector<FfnSource> parts;  // sources of the experts, at least one
  WeightTable weights;           // tensors of all models
  Diagnostics notes;
};

// Reads configs and headers, but no payload. Errors: those of open_source(), read_config() and
// read_adapter(), and
//   upcycle.source_gguf     a GGUF file with --from-moe or adapters
//   upcycle.quantised       the checkpoint stores quantized weights
//   upcycle.moe_already     the model has experts, and options.sources.multiply is not set
//   upcycle.not_moe         the model has no experts, and options.sources.multiply is set
//   upcycle.shape           a model of options.sources.experts differs in shape
//   upcycle.adapter.target  an adapter changes a tensor other than a feed-forward matrix of a layer
//                           that gets experts, or its shape differs
Result<DenseModels> open_models(const UpcycleOptions& options);

}  // namespace moec
