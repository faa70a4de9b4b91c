// The models that an upcycling reads: the dense one, others of its shape, and its adapters.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/jobs/upcycle/ffn_source.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/sources/hf/config.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Before the names of tensors of other models than the dense one.
inline constexpr std::string_view kOtherModel = "other/";

struct DenseModels {
  std::shared_ptr<const Family> user_family;  // that `config` names, if any
  HfConfig config;                            // of the model that is upcycled
  std::string config_text;
  FfnSource dense;               // that model
  std::vector<FfnSource> parts;  // whose feed-forward parts become experts, at least one
  WeightTable weights;           // of all of them
  Diagnostics notes;
};

// Reads configs and headers, no payload. Errors: those of open_source(), read_config_of() and
// read_adapter(), and
//   upcycle.source_gguf   a GGUF file
//   upcycle.quantised     weights in codes of few bits
//   upcycle.moe_already   the model has experts, unless options.sources.multiply is set
//   upcycle.not_moe       it has none, and options.sources.multiply is set
//   upcycle.shape         a model of `experts` has other sizes
//   upcycle.adapter.target  an adapter changes what is no feed-forward matrix of a layer that
//                         gets experts, or a matrix of another shape
Result<DenseModels> open_models(const UpcycleOptions& options);

// A config as JSON and back: the bare word Infinity of Python is the string "inf" in it.
nlohmann::ordered_json config_json(const std::string& text);
std::string config_text(const nlohmann::ordered_json& config);

}  // namespace moec
