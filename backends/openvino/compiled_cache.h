// A cache of compiled models: files in the subfolder kCompiledFolder (file_names.h) of an export:
//
//   <shard>.t<tokens>.<device>.<key>.blob
// The key is a digest of everything that the compiled model depends on, so files of another export,
// OpenVINO version or device never match, and are replaced. A file contains the model as saved by
// OpenVINO, the results of a test run, and a digest of both. The file is used only if the digest
// matches and the restored model reproduces these results; otherwise the model is compiled. Models
// that OpenVINO cannot restore are not kept. Files are written under a temporary name and renamed,
// so that several processes may share the folder.
#pragma once

#include <memory>
#include <string>

#include "backends/openvino/openvino_api.h"
#include "backends/runtime/session/engine.h"

namespace moec {

class CompiledCache {
 public:
  CompiledCache(OpenVinoLibrary& library, OpenVinoCompile options)
      : library_(library), options_(std::move(options)) {}

  // Restores the graph's model, or compiles and stores it. Errors: engine.compile (also if a file
  // of the export cannot be read), engine.cache (the folder cannot be written).
  Result<std::unique_ptr<OpenVinoModel>> get(const ShardGraph& graph);

 private:
  std::unique_ptr<OpenVinoModel> restored(const std::string& path) const;
  // Writes the file. Returns false, without a file, if the model cannot be restored from it.
  Result<bool> keep(OpenVinoModel& model, const std::string& path) const;

  OpenVinoLibrary& library_;
  OpenVinoCompile options_;
};

}  // namespace moec
