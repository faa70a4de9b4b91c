// The stages with which onnxruntime-genai runs the static shards of an ONNX export one after
// another (`model.type` "decoder-pipeline"). README.md describes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/formats/genai/pipeline_glue.h"

namespace moec {

struct PipelineStage {
  std::string name, file;
  std::vector<std::string> inputs, outputs;      // of the graph
  std::map<std::string, std::string> forwarded;  // outputs that have another name in later stages
  bool is_for_prompts = false;                   // else for single tokens
  bool is_head = false;                          // needed only for the last window of a prompt
};

struct PipelineFile {
  std::string path, bytes;
};

struct Pipeline {
  std::vector<PipelineStage> stages;
  std::vector<PipelineFile> files;  // of the stages that are not shards
};

// Stages for the widest token width, then for width 1.
Pipeline make_pipeline(const PipelineSource& source);

// The paths of the files of make_pipeline(); needs no shards. The list may have more names.
std::vector<std::string> pipeline_files(const Manifest& manifest);

}  // namespace moec
