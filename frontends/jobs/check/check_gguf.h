// Checks the GGUF files of an export or of a split for llama.cpp: they must be unchanged and
// contain the whole model with every expert. Placement does not apply, because the files have no
// graphs.
#pragma once

#include <optional>
#include <string>

#include "frontends/jobs/check/check_report.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Checks an export whose manifest is in `report`: reads the files like any GGUF model, and fills in
// CheckReport::held. Findings, in addition to those of open_source():
//   check.gguf_model    the keys describe a model other than the manifest's
//   check.gguf_tensors  the tensors differ from those of report.json
void check_gguf_export(CheckReport& report, const std::string& folder);

// Checks the nodes that split.json lists. Returns std::nullopt if the nodes are not GGUF models.
// Error check.split_unfinished, as in check_split(). Findings:
//   those of verify_files()   a file is missing or was changed
//   those of read_gguf()
//   check.gguf_node       the keys of a node's first file contradict split.json on the node's name,
//                         its experts or their number
//   check.gguf_tensors    a tensor of experts has the wrong number of experts
//   check.other_model     the trunks of two nodes differ
//   check.uncovered       an expert is on no node
Result<std::optional<SplitCheck>> check_gguf_split(const std::string& folder,
                                                   const CheckOptions& options);

}  // namespace moec
