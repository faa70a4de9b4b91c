// How a family descriptor resolves against a config, and which tensors of a checkpoint it accounts
// for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/sources/hf/config.h"
#include "frontends/sources/hf/own_head.h"
#include "frontends/sources/hf/tensor_check.h"

namespace moec {

struct FamilyReport {
  HfConfig config;
  Diagnostics config_errors;  // with any, `tensors` is empty
  TensorAccount tensors;      // without a checkpoint: what the model needs, and none found
  bool has_checkpoint = false;

  bool ok() const { return config_errors.empty() && (!has_checkpoint || tensors.findings.empty()); }
};

// `config` is a config.json or a folder that has one; empty: the checkpoint's. `checkpoint` is a
// folder with weights; empty: the tensors are listed, but none is looked for. `family` must outlive
// the report. `same` is that of open_checkpoint(). What is wrong with the config or the tensors is
// in the report; errors are those of reading the files.
Result<FamilyReport> check_family(const Family& family, const std::string& config,
                                  const std::string& checkpoint, TensorsEqual& same);

// Axes, concepts, keys and roles. The diagnostics are the errors of the config, or what is wrong
// with the tensors of the checkpoint.
nlohmann::ordered_json family_json(const FamilyReport& report);

}  // namespace moec
