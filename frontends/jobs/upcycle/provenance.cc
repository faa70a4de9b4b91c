#include "frontends/jobs/upcycle/provenance.h"

#include <nlohmann/json.hpp>

#include "frontends/checkpoint/config_text.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"

namespace moec {

using nlohmann::ordered_json;

namespace {

ordered_json names_of(const std::vector<std::string>& folders) {
  ordered_json names = ordered_json::array();
  for (const std::string& folder : folders) names.push_back(last_component(folder));
  return names;
}

void add_start(const ExpertStart& start, ordered_json& json) {
  json["init"] = enum_name(start.init);
  if (start.init == ExpertInit::drop) json["drop"] = start.drop;
  json["router"] = enum_name(start.router);
  if (start.router != RouterInit::zero) json["router_std"] = start.router_std;
  json["scale"] = enum_name(start.scale);
}

std::string torch_name(DType dtype) {
  if (dtype == DType::bf16) return "bfloat16";
  return dtype == DType::f16 ? "float16" : "float32";
}

}  // namespace

ordered_json exactness_json(const ExactClass& exact) {
  ordered_json json = {{"class", enum_name(exact.kind)}};
  if (!exact.reasons.empty()) json["reasons"] = exact.reasons;
  return json;
}

ordered_json provenance_json(const UpcycleOptions& options, const ExactClass& exact,
                             const PartFactors& factors) {
  ordered_json json = {{"tool", std::string("moec ") + MOEC_VERSION},
                       {"source", last_component(options.source)}};
  if (options.sources.multiply > 0) {
    json["multiply"] = options.sources.multiply;
  } else {
    if (options.shape.granularity > 0) json["granularity"] = options.shape.granularity;
    if (options.shape.shared_width > 0) json["shared_width"] = options.shape.shared_width;
    add_start(options.start, json);
    json["factors"] = {{"gate", factors.gate}, {"up", factors.up}, {"down", factors.down}};
  }
  if (options.start.noise > 0) json["noise"] = options.start.noise;
  json["seed"] = options.start.seed;
  if (!options.sources.experts.empty()) json["experts_of"] = names_of(options.sources.experts);
  if (!options.sources.adapters.empty()) json["adapters"] = names_of(options.sources.adapters);
  json["exactness"] = exactness_json(exact);
  return json;
}

void finish_config(const UpcycleOptions& options, const ExactClass& exact,
                   const PartFactors& factors, ordered_json& config) {
  if (options.dtype) {
    const std::string name = torch_name(*options.dtype);
    config["dtype"] = name;
    // Older versions of transformers read only torch_dtype.
    if (config.contains("torch_dtype")) config["torch_dtype"] = name;
  }
  config[kProvenanceKey] = provenance_json(options, exact, factors);
}

}  // namespace moec
