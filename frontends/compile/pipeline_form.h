// Restricts a plan to what a pipeline of onnxruntime-genai can run (`--compat genai`).
#pragma once

#include "backends/manifest/manifest.h"
#include "ir/model/plan.h"

namespace moec {

// Succeeds if onnxruntime-genai can run the static shards one after another. Error compat.genai,
// with the option to use instead, for the first unsupported property. Options: formats other than
// ONNX, targets with a graph of the whole model, token widths other than 1 and one more. Models: no
// cache, no text generation, recurrent mixers, histories such as those of convolutions.
Status check_pipeline(const Plan& plan, const manifest::Build& build, bool has_decoder_graph);

}  // namespace moec
