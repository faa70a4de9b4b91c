// What lies at a path, by names and first bytes; nothing is read further.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

enum class PathKind : uint8_t {
  unknown,     // nothing of the following, or nothing at all
  checkpoint,  // a folder with config.json
  config,      // a config.json
  weights,     // a .safetensors file
  gguf,        // a GGUF file
  exported,    // a folder with manifest.json
  several,     // a folder that holds a folder of an export for each of several targets
  unfinished,  // a folder with the journal of an interrupted export
  manifest,    // manifest.json or manifest.bin of an export
  shard,       // an .onnx file or an .mlpackage
  ir,          // a shard in text form, .ir
  golden,      // a folder with golden.json
  published,   // no path, but the name of a published model
  json,        // a .json file of another name: a config or a family descriptor
  file,        // any other file
};

PathKind kind_of_path(const std::string& path);

// The folders in this one that hold a finished export, sorted.
std::vector<std::string> finished_exports_in(const std::string& folder);

// Whether the folder has golden results. Some lie in the folder of their checkpoint.
bool holds_golden(const std::string& folder);

}  // namespace moec
