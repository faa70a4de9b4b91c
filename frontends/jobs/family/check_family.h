// Resolves a family descriptor against a config, and matches it with the tensors of a checkpoint.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/sources/hf/config.h"
#include "frontends/sources/hf/own_head.h"
#include "frontends/sources/hf/tensor_check.h"

namespace moec {

struct FamilyReport {
  HfConfig config;
  Diagnostics config_errors;  // if there are any, `tensors` is empty
  TensorAccount tensors;      // without a checkpoint: needed tensors only, none found
  bool has_checkpoint = false;

  bool ok() const { return config_errors.empty() && (!has_checkpoint || tensors.findings.empty()); }
};

// `config` is a config.json or a folder that has one; empty: the checkpoint's. `checkpoint` is a
// folder with weights; empty: needed tensors are listed without a search. `family` must outlive the
// report. `same` is used as in open_checkpoint(). Problems of the config and of tensors are part of
// the report; errors are those of reading the files.
Result<FamilyReport> check_family(const Family& family, const std::string& config,
                                  const std::string& checkpoint, TensorsEqual& same);

// The report as JSON: axes, concepts, keys and roles. The diagnostics are the errors of the config
// or, if there are none, of the checkpoint's tensors.
nlohmann::ordered_json family_json(const FamilyReport& report);

}  // namespace moec
