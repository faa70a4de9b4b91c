// Checks GGUF files that moec wrote, of an export or of a split for llama.cpp: that they are the
// files that were written, and that they hold the whole model, each expert included. Placement does
// not apply: the files hold no graphs.
#pragma once

#include <optional>
#include <string>

#include "frontends/jobs/check/check_report.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Checks an export whose manifest is in `report`: reads the model from the files as moec reads any
// GGUF model, and fills in CheckReport::held. Findings, besides those of open_source():
//   check.gguf_model    the keys give another model than the manifest's
//   check.gguf_tensors  the tensors are not those of report.json
void check_gguf_export(CheckReport& report, const std::string& folder);

// Checks the nodes that split.json lists; nothing if they are not of a GGUF model. Error
// check.split_unfinished, as check_split(). Findings:
//   those of verify_files()   a file is missing or is not the one that was written
//   those of read_gguf()
//   check.gguf_node       the keys of a node's first file name another node, set of experts or
//                         number of experts than split.json
//   check.gguf_tensors    a tensor of experts has another number of them
//   check.other_model     the trunks of two nodes differ
//   check.uncovered       an expert that is on no node
Result<std::optional<SplitCheck>> check_gguf_split(const std::string& folder,
                                                   const CheckOptions& options);

}  // namespace moec
