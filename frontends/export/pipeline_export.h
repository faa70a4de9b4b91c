// The files of `--compat genai`, with which unmodified onnxruntime-genai runs the static shards of
// an ONNX export as a pipeline. The shards' files are those of any export.
//
//   OUT/genai_config.json      the stages, in order
//   OUT/genai_front.tT.onnx    from tokens to the inputs of shards, one per token width
//   OUT/genai/….tT.onnx        between shards
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"

namespace moec {

// The names of the files above. The list may have names that are not written.
std::vector<std::string> pipeline_names(const Manifest& manifest);

// Writes the files. The manifest must be complete except for its side files, and of a plan that
// check_pipeline() accepts. Errors: those of genai_config() and of writing.
Result<std::vector<manifest::FileRef>> write_pipeline(const Manifest& manifest,
                                                      const ModelConfig& model,
                                                      const ExportOptions& options);

}  // namespace moec
