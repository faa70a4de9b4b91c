// Determines the kind of a file or folder by its name and first bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

enum class PathKind : uint8_t {
  unknown,     // none of the following, or the path does not exist
  checkpoint,  // a folder with config.json
  config,      // a config.json
  weights,     // a .safetensors file
  gguf,        // a GGUF file
  exported,    // a folder with manifest.json
  several,     // a folder with one export folder per target
  unfinished,  // a folder with the journal of an interrupted export
  manifest,    // manifest.json or manifest.bin of an export
  shard,       // an .onnx file or an .mlpackage
  ir,          // a shard in text form, .ir
  golden,      // a folder with golden.json
  published,   // not a path, but the name of a published model
  json,        // another .json file: a config or a family descriptor
  file,        // any other file
};

PathKind kind_of_path(const std::string& path);

// Subfolders with a finished export, sorted.
std::vector<std::string> finished_exports_in(const std::string& folder);

// True if the folder has golden results. A checkpoint folder may also contain its golden results.
bool holds_golden(const std::string& folder);

}  // namespace moec
