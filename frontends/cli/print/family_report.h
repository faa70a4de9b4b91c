// What `moec family check` found, for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "frontends/hf/config.h"
#include "frontends/hf/tensor_check.h"

namespace moec {

struct FamilyReport {
  HfConfig config;
  Diagnostics config_errors;  // then there are no tensors
  TensorAccount tensors;      // without a checkpoint: what the model needs, and none found
  bool has_checkpoint = false;

  bool ok() const { return config_errors.empty() && (!has_checkpoint || tensors.findings.empty()); }
};

// All but the errors of the config.
void print_family_report(const FamilyReport& report);
nlohmann::ordered_json family_report_json(const FamilyReport& report);

}  // namespace moec
